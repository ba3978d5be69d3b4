// Files by descriptor: one that closes itself, whole writes, and errors in words.
#pragma once

#include <gpuactors/base/result.hpp>

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
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

  /// Closes it; errno stays what it was.
  void reset() noexcept {
    const int before = errno;
    if (number_ >= 0)
      ::close(number_);
    number_ = -1;
    errno = before;
  }

  /// Negative when there is none; poll() skips such entries.
  [[nodiscard]] int get() const noexcept {
    return number_;
  }

  explicit operator bool() const noexcept {
    return number_ >= 0;
  }

private:
  int number_ = -1;
};

/// What an errno means, for example "Permission denied".
[[nodiscard]] std::string errno_text(int error);

/// Says by errno what could not be done with `path` ("written"): `unavailable` for what passes, such as a full disk,
/// `invalid_argument` for the rest.
Failure fail_errno(const std::filesystem::path& path, std::string_view what);

/// Writes all of it; on a failure, which errno tells, possibly a part.
[[nodiscard]] bool write_all(int file, std::string_view text) noexcept;

} // namespace gpuactors::detail
