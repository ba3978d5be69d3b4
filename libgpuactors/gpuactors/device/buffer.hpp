// Buffer and HostBuffer: memory of a device, and memory of the host for copies to and from it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace gpuactors {

class Context;
class Stream;
class Tensor;

namespace detail {
struct Block;
struct Storage;
} // namespace detail

/// Owns device memory. Empty after a move. The memory is freed after all work that its context has queued so far, on
/// any stream; work of another context that uses it needs `Tensor::pinned`.
///
/// If a buffer outlives its context (in a global variable, for example), the context empties it: `data()` is then null.
/// One thread at a time, which may differ from the context's: a buffer may be passed on and destroyed on any thread.
class Buffer {
public:
  Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() = default;

  /// Returns the address on the device; null if empty or reclaimed.
  [[nodiscard]] void* data() const noexcept;

  template <class T>
  [[nodiscard]] T* data() const noexcept {
    return static_cast<T*>(data());
  }

  /// Returns the requested size.
  [[nodiscard]] std::size_t bytes() const noexcept;

  explicit operator bool() const noexcept {
    return data() != nullptr;
  }

  /// Gives up ownership without freeing the memory; the context frees it at its end.
  void* release() noexcept;

private:
  friend class Stream;
  friend class Tensor;
  explicit Buffer(std::shared_ptr<detail::Block> block) : block_(std::move(block)) {
    // nop
  }

  /// Returns null if empty or reclaimed.
  [[nodiscard]] std::shared_ptr<detail::Storage> storage() const;

  std::shared_ptr<detail::Block> block_;
};

/// Host memory for full-speed device copies: pinned on CUDA, and taken from a pool, so creating one is cheap the second
/// time. Movable; empty after a move. It may outlive its context and be destroyed on any thread, but must live until
/// the copies that use it are done. No quota counts it.
class HostBuffer {
public:
  HostBuffer() = default;

  [[nodiscard]] void* data() const noexcept {
    return memory_.get();
  }

  template <class T>
  [[nodiscard]] T* data() const noexcept {
    return static_cast<T*>(data());
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    return memory_ != nullptr ? bytes_ : 0;
  }

  /// Returns as many elements as fit.
  template <class T>
  [[nodiscard]] std::span<T> span() const noexcept {
    return {data<T>(), bytes() / sizeof(T)};
  }

private:
  friend class Context;
  HostBuffer(std::shared_ptr<void> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
    // nop
  }

  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

} // namespace gpuactors
