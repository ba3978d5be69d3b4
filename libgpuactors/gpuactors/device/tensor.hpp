// Tensor: an array on a device.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/buffer.hpp>
#include <gpuactors/device/types.hpp>

#include <cstddef>
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
    return dtype_of<std::remove_const_t<T>> == dtype_ ? static_cast<T*>(raw()) : nullptr;
  }

  [[nodiscard]] void* raw() const noexcept {
    auto* const begin = buffer_.data<std::byte>();
    return begin != nullptr ? begin + offset_ : nullptr;
  }

  explicit operator bool() const noexcept {
    return static_cast<bool>(buffer_);
  }

  /// Returns the rows `first` to `first + count - 1` as a tensor in the same memory: a part of a batch, or of
  /// parameters that lie one behind the other. A row is what one index of the first dimension selects. The memory
  /// lives, and counts against the quota once, while any of its tensors lives. The address of the rows is aligned as
  /// their element type is, and no more. While others read a tensor that was shared, no tensor in its memory may be
  /// written. The thread of this tensor.
  /// @returns `invalid_argument` with the shape for rows outside of it or a `count` below 1, and for an empty tensor;
  ///          `lease_expired` if the memory was reclaimed.
  [[nodiscard]] Result<Tensor> rows(std::int64_t first, std::int64_t count) const;

  /// Returns a tensor of another shape in the same memory; see `rows` for its life.
  /// @returns `invalid_argument` if that shape has another number of elements, and for an empty tensor; `lease_expired`
  ///          if the memory was reclaimed.
  [[nodiscard]] Result<Tensor> reshaped(std::vector<std::int64_t> shape) const;

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

  /// Returns the memory that other processes can open, for a tensor from `shareable`; null for any other, also for rows
  /// of such a tensor. Any thread.
  [[nodiscard]] std::shared_ptr<SharedMemory> shared_memory() const;

private:
  friend class Stream;
  Tensor(Buffer buffer, DType dtype, std::vector<std::int64_t> shape)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(std::move(shape)) {
    // nop
  }

  /// Returns another tensor in the same memory, `offset` bytes behind the begin of this one.
  [[nodiscard]] Result<Tensor> part(std::size_t offset, std::vector<std::int64_t> shape) const;

  /// Returns another handle to the tensor's memory, which `storage` keeps alive.
  [[nodiscard]] Tensor viewed(std::shared_ptr<detail::Storage> storage) const;

  Buffer buffer_;
  /// Bytes from the begin of the buffer to the first element.
  std::size_t offset_ = 0;
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
};

} // namespace gpuactors
