// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace gpuactors {

/// Owns one file descriptor, or none, and closes it. Movable.
class Descriptor {
public:
  Descriptor() = default;

  explicit Descriptor(int number) : number_(number) {
    // nop
  }

  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {
    // nop
  }

  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    other.reset();
    return *this;
  }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  ~Descriptor() {
    reset();
  }

  explicit operator bool() const noexcept {
    return number_ >= 0;
  }

  [[nodiscard]] int get() const noexcept {
    return number_;
  }

  void reset() noexcept {
    if (number_ >= 0)
      ::close(std::exchange(number_, -1));
  }

private:
  int number_ = -1;
};

} // namespace gpuactors
