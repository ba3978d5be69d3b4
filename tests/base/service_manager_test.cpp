// ServiceManager: what systemd hears, and when nobody listens.
#include <gpuactors/base/service_manager.hpp>

#include <support/catch.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

using gpuactors::Duration;
using gpuactors::ServiceManager;
using namespace std::chrono_literals;

namespace {

/// The other side, with a name in the abstract name space.
class Listener {
public:
  Listener() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    ::close(socket_);
  }

  [[nodiscard]] std::string address() const {
    return "@" + name_;
  }

  /// The next message; empty if none has come.
  [[nodiscard]] std::string next() const {
    char text[512];
    const auto size = ::recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? std::string{} : std::string(text, static_cast<std::size_t>(size));
  }

private:
  std::string name_ = "gpuactors-test-" + std::to_string(::getpid());
  int socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

} // namespace

TEST_CASE("a service manager hears each state as a message of its protocol") {
  const Listener listener;
  const ServiceManager manager{listener.address(), 30s};
  manager.ready("serves at 10.0.0.1:7711");
  manager.status("of two\nlines");
  manager.alive();
  manager.stopping();
  CHECK(listener.next() == "READY=1\nSTATUS=serves at 10.0.0.1:7711");
  CHECK(listener.next() == "STATUS=of two lines");
  CHECK(listener.next() == "WATCHDOG=1");
  CHECK(listener.next() == "STOPPING=1");
  CHECK(manager.beat() == Duration{10s});
}

TEST_CASE("without a service manager, or with one that is gone, nothing is sent") {
  const ServiceManager nobody;
  nobody.ready("");
  CHECK_FALSE(nobody.beat());
  ServiceManager{"@gpuactors-test-nobody-listens", 1s}.alive();
  ServiceManager{std::string(300, 'x'), 1s}.alive();
  CHECK_FALSE(ServiceManager{{}, 1s}.beat());
}

TEST_CASE("the environment says who the service manager is, and whom its watchdog watches") {
  const auto own = std::to_string(::getpid());
  ::setenv("NOTIFY_SOCKET", "@somebody", 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  ::setenv("WATCHDOG_PID", own.c_str(), 1);
  CHECK(ServiceManager::from_environment().beat() == Duration{1s});
  ::setenv("WATCHDOG_PID", "1", 1);
  CHECK_FALSE(ServiceManager::from_environment().beat());
  ::unsetenv("WATCHDOG_PID");
  CHECK(ServiceManager::from_environment().beat() == Duration{1s});
  for (const auto* nonsense : {"0", "-5", "3s", ""}) {
    ::setenv("WATCHDOG_USEC", nonsense, 1);
    CHECK_FALSE(ServiceManager::from_environment().beat());
  }
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("NOTIFY_SOCKET");
}
