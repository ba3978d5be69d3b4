// An owning file descriptor, and the text of an errno value.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace gpuactors::detail {

/// Owns a file descriptor, or none.
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
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  ~Descriptor() {
    reset();
  }

  /// Closes the descriptor, if there is one. Preserves errno.
  void reset() noexcept {
    const int before = errno;
    if (number_ >= 0)
      ::close(number_);
    number_ = -1;
    errno = before;
  }

  /// Gives up ownership: the caller closes the returned descriptor.
  [[nodiscard]] int release() noexcept {
    return std::exchange(number_, -1);
  }

  /// Returns the descriptor, or a negative number if there is none; poll() skips negative entries.
  [[nodiscard]] int get() const noexcept {
    return number_;
  }

  explicit operator bool() const noexcept {
    return number_ >= 0;
  }

private:
  int number_ = -1;
};

/// Returns the system's text for an errno value, for example "Permission denied".
[[nodiscard]] inline std::string errno_text(int error) {
  return std::generic_category().message(error);
}

} // namespace gpuactors::detail
