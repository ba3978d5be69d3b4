// This program once more, as another process on the same device.
#pragma once

#include <gpu/lab.hpp>
#include <sys/types.h>

#include <string>

namespace gpuactors::gpu {

/// A process that does one thing (`--child WHAT`), connected by a socket. Killed with the object. Who waits for it does
/// so for half a minute at most, and then fails: what hangs must not hang who watches it.
class Child {
public:
  explicit Child(const std::string& what);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  /// Of this side. What the child prints comes out here; descriptors come with a byte.
  [[nodiscard]] int socket() const noexcept {
    return socket_;
  }

  /// All that it prints until its end, without the last end of line.
  [[nodiscard]] std::string output() const;

  /// Waits for its end. @returns its exit code, or 128 + the signal; -1 when it does not end although it was killed.
  int wait();

  void kill() noexcept;

private:
  int socket_ = -1;
  pid_t pid_ = 0;
};

/// Sends a descriptor with one byte.
void send_descriptor(int socket, int descriptor);

/// Takes one, within half a minute; -1 when the other side ended without sending any. What it has said instead is
/// appended.
int receive_descriptor(int socket, std::string& instead);

} // namespace gpuactors::gpu
