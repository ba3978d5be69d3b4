// One shared tensor of a process: where it lies, and how its bytes get to who reads them.
#pragma once

#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gpuactors::detail {

class TensorTable;

/// Which tensor it is, of all processes: the store that it was put into, and its number there.
using TensorName = std::pair<std::uint64_t, std::uint64_t>;

/// The work that makes a tensor, while it was still queued when the tensor was put. Any thread.
class Coming {
public:
  explicit Coming(Mark mark) : mark_(std::move(mark)) {
    // nop
  }

  /// The point behind it; empty once it is done.
  [[nodiscard]] Mark mark() const;

  /// It is done, as well as that went. Once; does not block.
  void set(Result<void> outcome);

  /// Waits until it is done. @returns its error.
  [[nodiscard]] Result<void> wait() const;

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  // Guarded by `mutex_`.
  Mark mark_;
  std::optional<Result<void>> outcome_;
};

/// A shared tensor: on a device of this process, in its host memory, or on a device in memory of another process. Any
/// thread; immutable once it is in a table, except for what the mutexes guard.
struct TensorEntry {
  std::weak_ptr<TensorTable> table;
  std::uint64_t id = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
  /// Where it lies if that is a device; null for host memory. Of another process's tensor: which device has it open.
  std::shared_ptr<Device> device;
  /// Whether another process has it, on a device; then, whether that is `device` and not one beside it.
  bool borrowed = false;
  bool near = false;
  /// Null: it was there when it was put.
  std::shared_ptr<Coming> coming;
  /// What it is called where it came from, if it was fetched.
  TensorName origin;
  mutable std::mutex place;
  /// Guarded by `place`, and changed under `mutex` as well. The tensor, unless it is borrowed.
  Tensor tensor;
  /// Guarded by `place`. If it is borrowed; null once its owner has ended.
  std::shared_ptr<SharedMemory> opened;
  /// Held while bytes are brought to where others can read them.
  std::mutex mutex;
  /// Its bytes in host memory; for a tensor on a device, once somebody asked for them. Guarded by `mutex`.
  SharedRegion region;

  ~TensorEntry();

  /// The tensor on its device, which stays while the result lives. Waits until it is there.
  /// @returns `unsupported` when it lies in host memory or is borrowed, `actor_died` when the owner has ended, or the
  ///          error of the work that makes it.
  [[nodiscard]] Result<Tensor> view() const;

  /// Likewise, for work of `stream`, which is on its device: on CUDA that work waits, not the caller. The result may go
  /// before the work is done.
  [[nodiscard]] Result<Tensor> view_on(Stream& stream) const;

  /// The bytes in host memory, brought there if need be.
  /// @returns `actor_died` when the owner has ended, `out_of_memory`.
  [[nodiscard]] Result<SharedRegion> host_bytes();

  /// Memory on its device that other processes can open, with its bytes, which are copied there the first time.
  /// @param on_end called, on any thread, when that memory goes.
  /// @returns `unsupported`, `actor_died` when the owner has ended, `out_of_memory` when it has no room for the copy.
  [[nodiscard]] Result<std::shared_ptr<SharedMemory>> device_bytes(std::function<void()> on_end);

  /// A copy of it on another device, that of `stream`; waits for it.
  [[nodiscard]] Result<Tensor> copy_to(Stream& stream);

  /// The owner of what is borrowed has ended.
  void lose();

  /// Copies the bytes to `target`. @returns `actor_died` when the owner has ended.
  [[nodiscard]] Result<void> read(void* target);

private:
  /// Where its bytes lie on `device`, as long as this lives.
  struct Source {
    const void* address = nullptr;
    Tensor tensor;
    std::shared_ptr<SharedMemory> lent;
  };

  [[nodiscard]] Result<Source> source() const;
  /// What is borrowed, open on `device`. @returns `actor_died`.
  [[nodiscard]] Result<std::shared_ptr<SharedMemory>> memory() const;
  [[nodiscard]] Result<Tensor> borrowed_on(Stream& stream) const;
  [[nodiscard]] Result<Tensor> pinned_for(Stream& stream) const;
};

/// Bytes of a shared tensor, which may have none: dimensions of 0 are fine. Pure.
/// @returns `invalid_argument` saying what is wrong with its type or shape.
[[nodiscard]] Result<std::size_t> shared_bytes(DType dtype, const std::vector<std::int64_t>& shape);

} // namespace gpuactors::detail
