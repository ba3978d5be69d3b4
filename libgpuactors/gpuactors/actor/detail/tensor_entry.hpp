// One shared tensor of a process: where it is stored, and how its bytes reach readers.
#pragma once

#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gpuactors::detail {

class TensorTable;

/// The name of a tensor, unique among all processes: the identity of the store it was put into, its number there, and
/// where that store is. A reference may come from anybody: one that says otherwise where to fetch a tensor names
/// another one.
using TensorName = std::tuple<std::uint64_t, std::uint64_t, std::string>;

/// The work that computes a tensor, if that work was still queued when the tensor was put. Any thread.
class Coming {
public:
  explicit Coming(Mark mark) : mark_(std::move(mark)) {
    // nop
  }

  /// Returns the mark behind the work in its stream; empty once the work is done.
  [[nodiscard]] Mark mark() const;

  /// Records that the work is done, and its outcome. Call once; does not block.
  void set(Result<void> outcome);

  /// Waits until the work is done. @returns the error of the work.
  [[nodiscard]] Result<void> wait() const;

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  // Guarded by `mutex_`.
  Mark mark_;
  std::optional<Result<void>> outcome_;
};

/// A shared tensor: on a device of this process, in host memory, or borrowed, in device memory of another process. Any
/// thread; immutable once it is in a table, except for the members that the mutexes guard.
struct TensorEntry {
  std::weak_ptr<TensorTable> table;
  std::uint64_t id = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
  /// The device of the tensor; null if the tensor is in host memory. For a borrowed tensor, the device on which its
  /// memory is open.
  std::shared_ptr<Device> device;
  /// `borrowed`: another process owns the tensor, on one of its devices. `near`: that device is `device` itself, not a
  /// peer of it.
  bool borrowed = false;
  bool near = false;
  /// The work that computes the tensor; null if it was done when the tensor was put.
  std::shared_ptr<Coming> coming;
  /// The tensor's name in the process it was fetched from, if it was fetched.
  TensorName origin;
  mutable std::mutex place;
  /// The tensor on its device, unless it is borrowed. Guarded by `place`; changed only with `mutex` held as well.
  Tensor tensor;
  /// The open memory of a borrowed tensor; null once its owner has ended. Guarded by `place`.
  std::shared_ptr<SharedMemory> opened;
  /// Held while the bytes are copied to memory that others can read.
  std::mutex mutex;
  /// The bytes in host memory; for a tensor on a device, filled when the first reader asks for them. Guarded by
  /// `mutex`.
  SharedRegion region;

  ~TensorEntry();

  /// Returns the tensor on its device. Its memory stays while the result lives. Waits until the tensor is computed.
  /// @returns `unsupported` if the tensor is in host memory or borrowed, `actor_died` if the owner has ended, or the
  ///          error of the work that computes the tensor.
  [[nodiscard]] Result<Tensor> view() const;

  /// Returns the tensor for work of `stream`, a stream of `device`. On CUDA, that work waits for the tensor on the
  /// device, so the caller need not. The result may be destroyed before the work is done.
  [[nodiscard]] Result<Tensor> view_on(Stream& stream) const;

  /// Returns the bytes in host memory; copies them there first if necessary.
  /// @returns `actor_died` if the owner has ended, `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> host_bytes();

  /// Returns memory on the tensor's device that other processes can open. The first call copies the bytes there.
  /// @param on_end called, on any thread, when that memory is freed.
  /// @returns `unsupported`, `actor_died` if the owner has ended, `out_of_memory` if the owner has no room for the
  ///          copy.
  [[nodiscard]] Result<std::shared_ptr<SharedMemory>> device_bytes(std::function<void()> on_end);

  /// Returns a copy of the tensor on another device, that of `stream`. Waits until the copy is done.
  [[nodiscard]] Result<Tensor> copy_to(Stream& stream);

  /// Closes the memory of a borrowed tensor, because its owner or this entry has ended.
  void lose();

  /// Copies the bytes to `target`. @returns `actor_died` if the owner has ended.
  [[nodiscard]] Result<void> read(void* target);

private:
  /// The address of the tensor's bytes on `device`, valid while the `Source` lives.
  struct Source {
    const void* address = nullptr;
    Tensor tensor;
    std::shared_ptr<SharedMemory> lent;
  };

  [[nodiscard]] Result<Source> source() const;
  /// Returns the memory of a borrowed tensor, open on `device`. @returns `actor_died` if its owner has ended.
  [[nodiscard]] Result<std::shared_ptr<SharedMemory>> memory() const;
  [[nodiscard]] Result<Tensor> borrowed_on(Stream& stream) const;
  [[nodiscard]] Result<Tensor> pinned_for(Stream& stream) const;
};

/// Returns the size of a shared tensor in bytes. Dimensions of 0 are allowed. Pure.
/// @returns `invalid_argument` with the problem in the type or shape.
[[nodiscard]] Result<std::size_t> shared_bytes(DType dtype, const std::vector<std::int64_t>& shape);

} // namespace gpuactors::detail
