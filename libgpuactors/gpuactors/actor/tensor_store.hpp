// Tensors that are shared: put once, immutable, read by many, without their bytes ever entering a message.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/v1/tensor.pb.h>

#include <map>
#include <memory>
#include <mutex>

namespace gpuactors {

class TensorStore;

template <class T>
class Shared;

/// A counted handle to an immutable tensor in the tensor store. Copyable; any thread.
///
/// The bytes stay in the memory (and the quota) of whoever put them, until the last handle is gone. When the owner ends
/// first, the tensor is lost: reading it fails with `actor_died`.
template <>
class Shared<Tensor> {
public:
  Shared() = default;

  explicit operator bool() const noexcept {
    return entry_ != nullptr;
  }

  [[nodiscard]] DType dtype() const noexcept;
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept;

  /// A reference to send in a message: valid while some handle to the tensor lives.
  [[nodiscard]] v1::TensorRef ref() const;

  /// A reference that keeps the tensor by itself, until somebody `get`s it (once) or its owner ends. The handle is
  /// empty afterwards.
  [[nodiscard]] v1::TensorRef hand_over() &&;

  /// The tensor for reading on the device it lies on, without a copy. The memory stays readable while the result
  /// lives, even if the owner ends.
  /// @returns `actor_died` when the owner has ended.
  [[nodiscard]] Result<Tensor> view() const;

  /// The tensor on the device of `stream`: without a copy when it lies there, else copied (through the host).
  /// @returns `actor_died` when the owner has ended, `out_of_memory` when the copy does not fit the quota.
  [[nodiscard]] Result<Tensor> on(Stream& stream) const;

  /// Copies the elements to the host.
  /// @returns `invalid_argument` when `T` is not the element type, `actor_died` when the owner has ended.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(size()));
    GPUACTORS_TRY(read(values.data(), dtype_of<T>));
    return values;
  }

  /// Number of elements.
  [[nodiscard]] std::int64_t size() const noexcept;

private:
  friend class TensorStore;
  struct Entry;

  explicit Shared(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {
    // nop
  }

  Result<void> read(void* values, DType dtype) const;

  std::shared_ptr<Entry> entry_;
};

/// The shared tensors of one process. Any thread.
class TensorStore : public std::enable_shared_from_this<TensorStore> {
public:
  TensorStore();
  ~TensorStore();

  /// Shares `tensor` in place: it stays on its device, in its owner's quota. Waits until the work queued on `stream`
  /// (the one that produced it) is done, and reports that work's error.
  Result<Shared<Tensor>> put(Tensor tensor, Stream& stream);

  /// The tensor that `ref` names.
  /// @returns `not_found` when no handle keeps it any more, or when it was put by another process.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref);

  /// Tensors that are kept now.
  [[nodiscard]] std::size_t size() const;

private:
  friend class Shared<Tensor>;

  mutable std::mutex mutex_;
  std::uint64_t identity_;
  std::uint64_t next_id_ = 1;
  struct Slot;
  std::map<std::uint64_t, Slot> slots_;
};

} // namespace gpuactors
