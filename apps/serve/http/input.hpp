// What a connection has received and not yet looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace serve {

/// Bytes at the front of memory that is small while a connection does nothing, and grows up to a bound.
class InputBuffer {
public:
  explicit InputBuffer(std::size_t most) : most_(std::max(most, least)) {
    // nop
  }

  [[nodiscard]] std::span<const std::byte> data() const noexcept {
    return {memory_.get() + begin_, end_ - begin_};
  }

  [[nodiscard]] bool empty() const noexcept {
    return begin_ == end_;
  }

  /// Whether there are as many as may be.
  [[nodiscard]] bool full() const noexcept {
    return end_ - begin_ == most_;
  }

  /// Takes bytes off the front.
  void consume(std::size_t bytes) noexcept {
    begin_ += bytes;
  }

  /// Lends the memory behind the data to a read, until `commit`: it stays where it is so long. None when it is full.
  [[nodiscard]] std::span<std::byte> lend() {
    if (begin_ == end_)
      begin_ = end_ = 0;
    if (empty() && capacity_ != least)
      resize(least);
    else if (end_ == capacity_ && begin_ > 0)
      pack();
    else if (end_ == capacity_ && capacity_ < most_)
      resize(std::min(most_, capacity_ * 2));
    return {memory_.get() + end_, capacity_ - end_};
  }

  /// The read is over, and has written so many bytes.
  void commit(std::size_t bytes) noexcept {
    end_ += bytes;
  }

private:
  static constexpr std::size_t least = 2U << 10;

  void pack() noexcept {
    std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }

  void resize(std::size_t capacity) {
    std::unique_ptr<std::byte[]> memory{new std::byte[capacity]};
    const auto bytes = end_ - begin_;
    if (bytes > 0)
      std::memcpy(memory.get(), memory_.get() + begin_, bytes);
    memory_ = std::move(memory);
    capacity_ = capacity;
    begin_ = 0;
    end_ = bytes;
  }

  std::size_t most_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

} // namespace serve
