#include "tcp_echo.hpp"

#include "harness.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace gpuactors::bench {

namespace {

using EchoMessage = std::array<char, 64>;

void echo_must(bool holds, const char* what) {
  if (holds)
    return;
  fmt::print(stderr, "gpuactors-bench: the bare TCP echo cannot {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// All of a message; false at the end of the connection.
bool receive(int socket, EchoMessage& message) {
  return ::recv(socket, message.data(), message.size(), MSG_WAITALL) == static_cast<ssize_t>(message.size());
}

bool send(int socket, const EchoMessage& message) {
  return ::send(socket, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

} // namespace

int serve_tcp_echo() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  echo_must(::bind(listener, generic, size) == 0 && ::listen(listener, 1) == 0
                && ::getsockname(listener, generic, &size) == 0,
            "listen");
  fmt::print("{}\n", ntohs(address.sin_port));
  std::fflush(stdout);
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  echo_must(socket >= 0, "accept");
  send_at_once(socket);
  EchoMessage message{};
  while (receive(socket, message) && send(socket, message)) {
    // nop
  }
  return 0;
}

TcpEcho::TcpEcho() : server_({"--tcp-echo"}), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto address = loopback(std::stoi(server_.line()));
  echo_must(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
  send_at_once(socket_);
}

TcpEcho::~TcpEcho() {
  ::close(socket_);
}

double TcpEcho::ask(int count) const {
  EchoMessage message{};
  const auto start = now_ns();
  for (int i = 0; i < count; ++i)
    echo_must(send(socket_, message) && receive(socket_, message), "answer");
  constexpr double in_a_microsecond = 1'000;
  return (now_ns() - start) / count / in_a_microsecond;
}

} // namespace gpuactors::bench
