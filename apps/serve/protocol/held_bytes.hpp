// Bounds the bytes of requests and answers that a server holds at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace serve {

/// How many bytes are held, and how many may be. Any thread.
class HeldBytes {
public:
  explicit HeldBytes(std::size_t most) : most_(most) {
    // nop
  }

  /// Adds `bytes` unless they would be too many.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    auto now = now_.load(std::memory_order_relaxed);
    do {
      if (bytes > most_ - now)
        return false;
    } while (!now_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
    return true;
  }

  void give(std::size_t bytes) noexcept {
    now_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t now() const noexcept {
    return now_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t most() const noexcept {
    return most_;
  }

private:
  std::size_t most_;
  std::atomic<std::size_t> now_{0};
};

/// What one request or answer has of them; gives it back at its end.
class HeldShare {
public:
  HeldShare() = default;

  explicit HeldShare(std::shared_ptr<HeldBytes> held) : held_(std::move(held)) {
    // nop
  }

  HeldShare(HeldShare&& other) noexcept : held_(std::move(other.held_)), bytes_(std::exchange(other.bytes_, 0)) {
    // nop
  }

  HeldShare& operator=(HeldShare&& other) noexcept {
    std::swap(held_, other.held_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  ~HeldShare() {
    if (held_ && bytes_ > 0)
      held_->give(bytes_);
  }

  /// Makes it so large, if it is not. When it may not be, it stays as it is.
  [[nodiscard]] bool grow_to(std::size_t bytes) noexcept {
    if (bytes <= bytes_)
      return true;
    if (held_ && !held_->take(bytes - bytes_))
      return false;
    bytes_ = bytes;
    return true;
  }

  /// Gives back what is above `bytes`.
  void settle(std::size_t bytes) noexcept {
    if (held_ && bytes < bytes_)
      held_->give(std::exchange(bytes_, bytes) - bytes);
  }

private:
  std::shared_ptr<HeldBytes> held_;
  std::size_t bytes_ = 0;
};

} // namespace serve
