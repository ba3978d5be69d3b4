// The one device interface: `Device` (a whole device) and `Backend` (what one lease holds of it), in raw pointers.
// Implemented by device/host, device/cuda and device/faulty, and held to the same behaviour by tests/conformance.
// Programs use `Context` (context.hpp), which adds quota, ownership and reclaim on top, once for all backends.
#pragma once

#include <gpuactors/device/kernel.hpp>
#include <gpuactors/device/quota.hpp>
#include <gpuactors/device/runtime_kernel.hpp>
#include <gpuactors/device/shared_memory.hpp>
#include <gpuactors/device/types.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace gpuactors {

class Device;

/// Row-major matrix product C = alpha * op(A) * op(B) + beta * C, op(X) being X or its transpose.
/// A is m x k (k x m when transposed), B is k x n (n x k when transposed), C is m x n; leading dimensions are in
/// elements between the starts of two rows. `dtype` is f32 or f64 for all three.
struct Gemm {
  DType dtype = DType::f32;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double alpha = 1.0;
  const void* a = nullptr;
  std::int64_t lda = 0;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  double beta = 0.0;
  void* c = nullptr;
  std::int64_t ldc = 0;
};

/// Direction of a copy. "host" is ordinary memory of the process.
enum class CopyKind : std::uint8_t { host_to_device, device_to_host, device_to_device };

/// What a backend is opened with.
struct BackendOptions {
  Share share = Share::whole(1);
  /// Second line of defence behind the quota where the device has one (a memory pool's maximum); 0: all of the device.
  std::uint64_t memory_bytes = 0;
  /// Where the backend charges device memory that it takes for itself, such as a BLAS workspace; may be null. What it
  /// allocates for its user is charged by the user.
  std::shared_ptr<Quota> quota = nullptr;
};

/// What one lease holds of one device, in raw pointers and handles.
///
/// Work on a stream runs in order; work on two streams of one backend may overlap. Calls return once the work is
/// queued; errors of the work itself show at `synchronize` of its stream, the first one only, and do not disturb other
/// streams unless they are sticky (`context_lost`). A backend is used by one thread at a time, except `query`,
/// `record`, `synchronize`, `free` and `footprint`, which any thread may call at any time. Destroying it waits for its
/// work; any thread may do that when nobody uses it any more. Sizes are in bytes and never zero.
class Backend {
public:
  virtual ~Backend() = default;

  /// What was really granted, after rounding.
  [[nodiscard]] virtual ContextGrant granted() const = 0;

  /// Whether a sticky error has been seen: every later call fails with `context_lost`, in this and any other backend
  /// of the device in this process. Any thread.
  [[nodiscard]] virtual bool lost() const noexcept = 0;

  // -- streams and events ----------------------------------------------------------------------

  virtual Result<StreamHandle> make_stream() = 0;
  /// Waits for the stream's work first.
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  /// Blocks the caller until all work queued on `stream` so far is done; returns its first error since the last call.
  virtual Result<void> synchronize(StreamHandle stream) = 0;
  virtual Result<EventHandle> make_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  /// Marks the point that `stream` has reached. An event may be recorded again; waits see the last record. Any thread.
  virtual Result<void> record(EventHandle event, StreamHandle stream) = 0;
  /// Later work of `stream` waits for `event` (which may belong to another backend of the same kind and process).
  virtual Result<void> wait(StreamHandle stream, EventHandle event) = 0;
  /// Whether all work before the last record is done. True for an event that was never recorded. Any thread.
  virtual Result<bool> query(EventHandle event) = 0;
  /// Calls `callback` once, on a thread of the backend or inside a `synchronize`, when the work queued on `stream` so
  /// far is done, with the first error since the last report, which is thereby reported: `synchronize` does not repeat
  /// it. The callback only posts: it must not call the backend or block. It is called even when the context is lost or
  /// the backend is destroyed first; only when `notify` itself fails it is not called at all.
  virtual Result<void> notify(StreamHandle stream, std::function<void(Result<void>)> callback) = 0;

  // -- memory ----------------------------------------------------------------------------------

  /// Allocates in stream order: usable by later work of `stream`. Aligned to at least 256 bytes.
  virtual Result<void*> allocate(std::size_t bytes, StreamHandle stream) = 0;
  /// Frees what was allocated on `stream`, after all work that this backend has queued so far on any of its streams: a
  /// program that leaves early frees no memory under work of another stream. Not before the last records of `readers`
  /// are reached either: events of other backends of the device, whose work uses the memory. Any thread.
  virtual void free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept = 0;

  void free(void* pointer, StreamHandle stream) noexcept {
    free(pointer, stream, {});
  }

  /// Copies in stream order. The host side must stay valid until the copy is done.
  virtual Result<void> copy(void* target, const void* source, std::size_t bytes, CopyKind kind,
                            StreamHandle stream) = 0;
  /// Copies from memory of another device of this process, in stream order: the work that made it is done, and it stays
  /// until the copy is.
  /// @returns `unsupported` when this backend knows no way that is shorter than through the host.
  virtual Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                                 StreamHandle stream);
  /// Sets every byte in stream order.
  virtual Result<void> fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) = 0;
  /// What an allocation of `bytes` really takes, which is what a quota counts.
  [[nodiscard]] virtual std::size_t footprint(std::size_t bytes) const noexcept = 0;

  /// Host memory that copies reach at full speed (pinned, where that makes a difference), aligned to at least 256
  /// bytes. Not zeroed. It may outlive the backend, and goes on any thread; by then no copy may use it any more.
  virtual Result<std::shared_ptr<void>> host_memory(std::size_t bytes);

  /// Before work of this backend uses memory that its device makes or opens to share it, which takes so much: what is
  /// kept of freed memory is so much less from then on. Ends with `detach`, when the memory could not be had, or with
  /// `let_go`. Any thread.
  virtual Result<void> attach(std::uint64_t footprint);
  virtual void detach(std::uint64_t footprint) noexcept;
  /// Drops a hold on such memory as `free` frees: after all work so far, and after `readers`. Any thread.
  virtual void let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept;
  /// Waits until what was given to `let_go` is dropped. The thread of the backend.
  virtual void settle() noexcept;

  // -- compute ---------------------------------------------------------------------------------

  /// Runs `kernel` for the indices 0..n-1; `pack` (`pack_bytes` long, at most `limits::kernel_argument_bytes`) is
  /// copied before the call returns.
  virtual Result<void> launch(const KernelInfo& kernel, std::uint64_t n, const void* pack, std::size_t pack_bytes,
                              StreamHandle stream) = 0;
  /// Queues a matrix product; the arguments were checked by the caller.
  virtual Result<void> gemm(const Gemm& product, StreamHandle stream) = 0;

  // -- libraries of others ---------------------------------------------------------------------

  /// Makes what this backend works in current on the calling thread until the result goes, on the same thread: on CUDA
  /// the context that the streams' handles belong to.
  /// @returns `unsupported` where handles mean nothing to others.
  virtual Result<std::shared_ptr<void>> make_current();

  /// Compiles and loads a kernel for this device. May block (seconds for long sources the first time).
  /// @returns `unsupported` where there is no compiler or it is not wanted, `invalid_argument` with the compiler's log.
  virtual Result<RuntimeKernel> compile(const KernelSource& source);
  /// Starts such a kernel; the arguments are copied before the call returns.
  virtual Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                              std::span<const KernelArgument> arguments, StreamHandle stream);
};

/// One device of this process. Opening and asking are safe from any thread.
class Device {
public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;

  /// Memory as the device reports it now, all holders counted.
  virtual Result<DeviceMemory> memory() = 0;

  /// Opens a backend for one lease. May block (a CUDA context takes 0.2 to 1 s). The backend is used by the thread
  /// that opened it.
  /// @returns `device_lost` when the device is not there; its text says what was offered and what exists.
  virtual Result<std::unique_ptr<Backend>> open(const BackendOptions& options) = 0;

  /// Whether something of this process is, or was, open on it.
  [[nodiscard]] virtual bool is_open() const {
    return false;
  }

  /// What `make_shared_memory` takes of the device.
  /// @returns `unsupported` where there is none.
  virtual Result<std::size_t> shared_footprint(std::size_t bytes);

  /// Memory of this device that other processes of this machine can open. In no quota. Contents are undefined.
  /// @returns `unsupported` where that is not possible (host devices: what lies on the host is shared otherwise),
  ///          `out_of_memory`.
  virtual Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes);

  /// Opens what another process made, at least `bytes` large, for reading on this device; it may lie on another one.
  /// `descriptor` stays the caller's.
  /// @returns `unsupported` when this device cannot reach it.
  virtual Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes);

  /// Drops what takes its time to go where nobody waits for that.
  virtual void dispose(std::shared_ptr<void> what);
};

} // namespace gpuactors
