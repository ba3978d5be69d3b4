// Relay: a line between two processes, whose ways can be closed to what is sent over them.
#pragma once

#include <gpuactors/base/endpoint.hpp>

#include <support/gate.hpp>

#include <atomic>
#include <list>
#include <mutex>
#include <thread>

namespace gpuactors::test {

/// Takes connections on loopback, and begins one to `to` for each.
class Relay {
public:
  explicit Relay(Endpoint to);
  ~Relay();

  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] Endpoint address() const {
    return {"127.0.0.1", port_};
  }

  /// What passes from those who dial, and what passes to them, behind the greetings of both.
  Gate from_dialler{true};
  Gate to_dialler{true};

  /// Connections that neither side has closed.
  [[nodiscard]] int open() const {
    return open_;
  }

private:
  void accept_all();
  void relay(int dialler);
  static void pump(int from, int to, Gate& gate);

  const Endpoint to_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<int> open_{0};
  std::mutex mutex_;
  std::list<int> sockets_;
  std::list<std::thread> lines_;
  std::thread accepting_;
};

} // namespace gpuactors::test
