// The body of a request while it comes in; afterwards, bytes that tensors are views of.
#pragma once

#include <apps/serve/protocol/held_bytes.hpp>
#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace serve {

/// Memory that grows, bounded by the size that a request may have and by what the server may hold. It grows with what
/// arrives: what was only announced costs nothing. One thread at a time.
class BodyBuffer {
public:
  enum class Growth : std::uint8_t {
    done,
    /// The request is larger than allowed.
    too_large,
    /// The server holds too much.
    no_room,
  };

  BodyBuffer() = default;

  BodyBuffer(std::shared_ptr<HeldBytes> held, std::size_t most) : share_(std::move(held)), most_(most) {
    // nop
  }

  /// The body will have `total` bytes: more memory than that is not needed.
  [[nodiscard]] Growth expect(std::size_t total);

  /// Makes room for `bytes` more, which `free` then begins with.
  [[nodiscard]] Growth reserve(std::size_t bytes);

  /// The memory behind what is filled.
  [[nodiscard]] std::span<std::byte> free() noexcept {
    return {memory_.get() + size_, capacity_ - size_};
  }

  /// The first `bytes` of `free` have been written to.
  void fill(std::size_t bytes) noexcept {
    size_ += bytes;
  }

  [[nodiscard]] Growth append(std::span<const std::byte> bytes);

  [[nodiscard]] std::size_t size() const noexcept {
    return size_;
  }

  /// How many more bytes the request may have.
  [[nodiscard]] std::size_t left() const noexcept {
    return most_ - size_;
  }

  /// All that was filled, followed by `body_padding` bytes of memory.
  [[nodiscard]] Bytes take() &&;

private:
  struct Release {
    void operator()(std::byte* memory) const noexcept {
      std::free(memory);
    }
  };
  /// Not from `new`: `realloc` moves large memory without a copy.
  using Memory = std::unique_ptr<std::byte[], Release>;
  struct Kept;

  [[nodiscard]] Growth resize(std::size_t capacity);

  HeldShare share_;
  std::size_t most_ = 0;
  Memory memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

} // namespace serve
