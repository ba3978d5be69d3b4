// Tensor: an array on a device.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/buffer.hpp>
#include <gpuactors/device/types.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

class SharedMemory;

/// A dense row-major array on a device: a buffer with element type and shape. Empty after a move.
class Tensor {
public:
  Tensor() = default;

  [[nodiscard]] DType dtype() const noexcept {
    return dtype_;
  }

  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept {
    return shape_;
  }

  /// Returns the number of elements.
  [[nodiscard]] std::int64_t size() const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(size()) * size_of(dtype_);
  }

  /// Returns the address on the device; null if empty, reclaimed, or if `T` is not the element type.
  template <class T>
  [[nodiscard]] T* data() const noexcept {
    return dtype_of<std::remove_const_t<T>> == dtype_ ? buffer_.data<T>() : nullptr;
  }

  [[nodiscard]] void* raw() const noexcept {
    return buffer_.data();
  }

  explicit operator bool() const noexcept {
    return static_cast<bool>(buffer_);
  }

  /// Returns a second handle to the same memory for a reader elsewhere. The memory stays while this handle lives, even
  /// beyond the end of the original context, and keeps counting against the owner's quota. Finish reading before you
  /// destroy the handle. Empty if the memory was already reclaimed. Any thread.
  [[nodiscard]] Tensor pinned() const;

  /// Returns a pinned handle for work of `reader`, a stream on the same device. You may destroy the handle, on any
  /// thread, while that work is still queued: the memory is freed after all work queued on `reader` by then.
  [[nodiscard]] Result<Tensor> pinned(Stream& reader) const;

  /// Copies the tensor into memory that other processes of this machine can open. The copy counts in the same quota and
  /// ends with the context like the tensor itself. The work that computes the tensor must be done. Copies on `through`,
  /// any stream of the device, and waits for it. Any thread that may use `through`.
  /// @param on_end called, on any thread, when that memory is unmapped in this process. It must only post.
  /// @returns `unsupported` if the device has no such memory, `out_of_memory`, an empty tensor if this one was
  ///          reclaimed.
  [[nodiscard]] Result<Tensor> shareable(Stream& through, std::function<void()> on_end) const;

  /// Returns the memory that other processes can open, for a tensor from `shareable`; null for any other. Any thread.
  [[nodiscard]] std::shared_ptr<SharedMemory> shared_memory() const;

private:
  friend class Stream;
  Tensor(Buffer buffer, DType dtype, std::vector<std::int64_t> shape)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(std::move(shape)) {
    // nop
  }

  /// Returns another handle to the tensor's memory, which `storage` keeps alive.
  [[nodiscard]] Tensor viewed(std::shared_ptr<detail::Storage> storage) const;

  Buffer buffer_;
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
};

} // namespace gpuactors
