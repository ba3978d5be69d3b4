// Asker: a client of a port of this machine, in bytes.
#pragma once

#include <support/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace gpuactors::test {

/// A connection of somebody who asks; a read that takes too long fails.
class Asker {
public:
  explicit Asker(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }

  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  ~Asker() {
    ::close(socket_);
  }

  void say(const std::string& text) const {
    static_cast<void>(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL));
  }

  /// Also the end of the connection.
  [[nodiscard]] bool hears_within(std::chrono::milliseconds wait) const {
    pollfd polled{socket_, POLLIN, 0};
    return ::poll(&polled, 1, static_cast<int>(wait.count())) > 0;
  }

  /// All that comes until the server closes.
  [[nodiscard]] std::string hear() const {
    std::string all;
    char buffer[4096];
    for (;;) {
      const auto count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0)
        return count == 0 ? all : all + "<the connection broke>";
      all.append(buffer, static_cast<std::size_t>(count));
    }
  }

private:
  int socket_;
};

} // namespace gpuactors::test
