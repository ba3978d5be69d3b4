#include "relay.hpp"

#include <support/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace gpuactors::test {

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

} // namespace

Relay::Relay(Endpoint to) : to_(std::move(to)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto address = loopback(0);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener_, 8) == 0);
  REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread{[this] { accept_all(); }};
}

Relay::~Relay() {
  from_dialler.open();
  to_dialler.open();
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  {
    const std::lock_guard lock{mutex_};
    for (const auto socket : sockets_)
      ::shutdown(socket, SHUT_RDWR);
  }
  for (auto& line : lines_)
    line.join();
  for (const auto socket : sockets_)
    ::close(socket);
  ::close(listener_);
}

void Relay::accept_all() {
  for (;;) {
    const int dialler = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (dialler < 0)
      return;
    lines_.emplace_back([this, dialler] { relay(dialler); });
  }
}

void Relay::relay(int dialler) {
  const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  {
    const std::lock_guard lock{mutex_};
    sockets_.insert(sockets_.end(), {dialler, other});
  }
  const auto address = loopback(to_.port);
  if (::connect(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    ++open_;
    std::thread back{[&] { pump(other, dialler, to_dialler); }};
    pump(dialler, other, from_dialler);
    back.join();
    --open_;
  }
}

void Relay::pump(int from, int to, Gate& gate) {
  std::array<char, 4096> bytes{};
  bool greets = true;
  for (;;) {
    // Byte by byte to the end of the greeting.
    const auto read = ::recv(from, bytes.data(), greets ? 1 : bytes.size(), 0);
    if (read <= 0)
      break;
    if (!greets)
      gate.pass();
    greets = greets && bytes[0] != '\n';
    for (ssize_t sent = 0; sent < read;) {
      const auto done = ::send(to, bytes.data() + sent, static_cast<std::size_t>(read - sent), MSG_NOSIGNAL);
      if (done <= 0)
        break;
      sent += done;
    }
  }
  ::shutdown(to, SHUT_WR);
  ::shutdown(from, SHUT_RD);
}

} // namespace gpuactors::test
