#include <gpuactors/wire/detail/probe.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace gpuactors::detail {

namespace {

class Socket {
public:
  explicit Socket(int fd) : fd_(fd) {
    // nop
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0)
      close(fd_);
  }
  [[nodiscard]] int fd() const noexcept {
    return fd_;
  }

private:
  int fd_;
};

/// 0, an errno, or ECANCELED.
int try_address(const addrinfo& address, TimePoint deadline, const std::atomic<bool>& stop) {
  const Socket socket{::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (socket.fd() < 0)
    return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  constexpr int look_again_ms = 50;
  while (!stop) {
    if (Clock::now() >= deadline)
      return ETIMEDOUT;
    pollfd entry{socket.fd(), POLLOUT, 0};
    if (::poll(&entry, 1, look_again_ms) <= 0)
      continue;
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
  }
  return ECANCELED;
}

} // namespace

Result<void> probe(const Endpoint& to, Duration timeout, const std::atomic<bool>& stop) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const auto code = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found); code != 0)
    return fail(Errc::unavailable, fmt::format("the host {} cannot be found: {}", to.host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses{found, ::freeaddrinfo};
  const auto deadline = deadline_after(Clock::now(), timeout);
  int error = 0;
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next) {
    error = try_address(*address, deadline, stop);
    if (error == 0)
      return {};
  }
  if (error == ECONNREFUSED)
    return fail(Errc::unavailable, fmt::format("nobody listens at {}", to_string(to)));
  if (error == ETIMEDOUT)
    return fail(Errc::unavailable, fmt::format("no answer from {} within {} ms", to_string(to),
                                               std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
  return fail(Errc::unavailable, fmt::format("cannot connect to {}: {}", to_string(to), std::strerror(error)));
}

} // namespace gpuactors::detail
