// The fronts as a whole: where the machine has no threads left, and where one of theirs is stuck.
#include "test_service.hpp"

#include <apps/serve/fronts.hpp>
#include <apps/serve/http/loop.hpp>
#include <support/asker.hpp>
#include <support/catch.hpp>
#include <support/no_threads.hpp>
#include <support/results.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>

using namespace serve;
using namespace serve::test;
using gpuactors::test::Asker;
using gpuactors::test::Gate;
using gpuactors::test::must;
using gpuactors::test::NoThreads;

namespace {

/// The socket of this process that was accepted at that port; -1 if there is none.
int accepted_at(std::uint16_t port) {
  for (int file = 0; file < 1'024; ++file) {
    sockaddr_in own{};
    sockaddr_in peer{};
    socklen_t own_size = sizeof own;
    socklen_t peer_size = sizeof peer;
    if (::getsockname(file, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 && own.sin_port == htons(port)
        && ::getpeername(file, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0)
      return file;
  }
  return -1;
}

int option_of(int socket, int level, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(socket, level, option, &value, &size) == 0);
  return value;
}

} // namespace

TEST_CASE("without threads neither front opens, and both do when there are some again", "[serve]") {
  TestService service;
  FrontOptions http;
  http.http = gpuactors::Endpoint{"127.0.0.1", 0};
  FrontOptions grpc;
  grpc.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
  {
    const NoThreads none;
    const auto why = [&](const FrontOptions& options) {
      const auto refused = Fronts::open(service, options);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().code() == gpuactors::Errc::unavailable);
      return refused.error().message();
    };
    CHECK(why(http).find("the HTTP front has no thread: ") == 0);
    CHECK(why(grpc).find("the gRPC front has no thread: ") == 0);
  }
  CHECK(Fronts::open(service, http).has_value());
  CHECK(Fronts::open(service, grpc).has_value());
}

TEST_CASE("fronts take a turn when each of their threads does, and none while one is stuck", "[serve]") {
  TestService service;
  Gate gate;
  FrontOptions options;
  options.http = gpuactors::Endpoint{"127.0.0.1", 0};
  auto fronts = must(Fronts::open(service, options));
  const auto turn = [&fronts] {
    const auto turned = std::make_shared<std::promise<void>>();
    fronts.turn([turned] { turned->set_value(); });
    return turned->get_future();
  };
  turn().wait();
  service.hold_ready(gate);
  const Asker client{fronts.http()->port};
  client.say("GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n");
  gate.await(1);
  auto held = turn();
  CHECK(held.wait_for(std::chrono::milliseconds{50}) == std::future_status::timeout);
  gate.open();
  held.wait();
}

TEST_CASE("fronts without HTTP have had their turn at once", "[serve]") {
  TestService service;
  FrontOptions options;
  options.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
  const auto fronts = must(Fronts::open(service, options));
  bool turned = false;
  fronts.turn([&turned] { turned = true; });
  CHECK(turned);
}

TEST_CASE("the system asks a client that says nothing whether it is still there", "[serve]") {
  TestService service;
  FrontOptions options;
  options.http = gpuactors::Endpoint{"127.0.0.1", 0};
  const auto fronts = must(Fronts::open(service, options));
  const Asker client{fronts.http()->port};
  client.say("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(client.hears_within(std::chrono::seconds{20}));
  const auto socket = accepted_at(fronts.http()->port);
  REQUIRE(socket >= 0);
  CHECK(option_of(socket, SOL_SOCKET, SO_KEEPALIVE) != 0);
  CHECK(option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE) == 60);
  CHECK(option_of(socket, IPPROTO_TCP, TCP_KEEPINTVL) == 20);
  CHECK(option_of(socket, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  CHECK(option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT) == 120'000);
}

TEST_CASE("a loop that nobody has stopped ends together with its thread", "[serve]") {
  TestService service;
  const auto state = std::make_shared<FrontState>(service, FrontOptions{}, Tokens{});
  auto loop = std::make_shared<Loop>(state, std::make_shared<Strangers>(), nullptr);
  must(loop->start());
  const std::weak_ptr<Loop> ended{loop};
  loop.reset();
  CHECK(ended.expired());
}
