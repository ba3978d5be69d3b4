// The device interface: `Device` (a whole device) and `Backend` (one lease's part of it), in raw pointers. Implemented
// by device/host, device/cuda and device/faulty; tests/conformance checks that they behave alike. Programs use
// `Context` (context.hpp), which adds quota, ownership and reclaim for all backends.
//
// Kinds of devices derive from `BasicDevice` and `BasicBackend`, which answer for what not every kind has. Decorators
// derive from the interface itself, where every call is pure: so the compiler names the one that is not passed on.
#pragma once

#include <gpuactors/device/gemm.hpp>
#include <gpuactors/device/kernel.hpp>
#include <gpuactors/device/quota.hpp>
#include <gpuactors/device/runtime_kernel.hpp>
#include <gpuactors/device/shared_memory.hpp>
#include <gpuactors/device/types.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace gpuactors {

class Device;

/// Direction of a copy. "host" is ordinary memory of the process.
enum class CopyKind : std::uint8_t { host_to_device, device_to_host, device_to_device };

/// What one launch of a compiled kernel runs over.
struct KernelExtent {
  /// Indices or blocks, at least 1. Host devices run the kernel for 0..count-1; CUDA passes it to the kernel.
  std::uint64_t count = 1;
  /// Grid, blocks and shared memory on CUDA; empty for a kernel over an index, for which the backend chooses them.
  std::optional<LaunchShape> shape = {};
};

/// Captured work of a stream, which can be launched any number of times. Any thread may destroy it, even while it runs
/// or after the end of its backend.
class BackendGraph {
public:
  virtual ~BackendGraph() = default;

  /// Returns the number of operations: launches, products, copies, fills.
  [[nodiscard]] virtual std::size_t operations() const noexcept = 0;
};

/// Options for opening a backend.
struct BackendOptions {
  Share share = Share::whole(1);
  /// The device's own limit behind the quota, if it has one (a memory pool's maximum); 0: all of the device.
  std::uint64_t memory_bytes = 0;
  /// The quota for device memory that the backend takes for itself, such as a BLAS workspace; may be null. The caller
  /// itself charges the memory that it allocates through the backend.
  std::shared_ptr<Quota> quota = nullptr;
  /// Whether the backend's streams only copy, so that it holds no compute.
  bool copies_only = false;
};

/// One lease's part of one device, in raw pointers and handles.
///
/// Work on a stream runs in order; work on two streams of one backend may overlap. Calls return once the work is
/// queued. `synchronize` of a stream returns the first error of its work; such errors do not affect other streams
/// unless they are sticky (`context_lost`). One thread at a time may use a backend, except for `synchronize`,
/// `footprint` and what says so below, which any thread may call at any time. The destructor waits for the work; any
/// thread may destroy a backend that nobody uses any more. Sizes are in bytes and never zero.
class Backend {
public:
  virtual ~Backend() = default;

  /// Returns the actual grant, after rounding.
  [[nodiscard]] virtual ContextGrant granted() const = 0;

  /// Returns whether a sticky error has occurred; then every later call fails with `context_lost`, in this and any
  /// other backend of the device in this process. Any thread.
  [[nodiscard]] virtual bool lost() const noexcept = 0;

  /// Returns whether the calling thread now runs work or a callback of a device of this kind. Do not destroy a backend
  /// there: the destructor could wait for the very work that calls it. Any thread.
  [[nodiscard]] virtual bool is_served_here() const noexcept = 0;

  // -- streams and events ----------------------------------------------------------------------

  virtual Result<StreamHandle> make_stream() = 0;
  /// Waits for the stream's work, then destroys the stream.
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  /// Blocks the caller until all work queued on `stream` so far is done; returns its first error since the last call.
  virtual Result<void> synchronize(StreamHandle stream) = 0;
  virtual Result<EventHandle> make_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  /// Marks the current end of `stream`. An event may be recorded again; waits use the last record. Any thread.
  virtual Result<void> record(EventHandle event, StreamHandle stream) = 0;
  /// Makes later work of `stream` wait for `event`, which may belong to another backend of the same kind and process.
  virtual Result<void> wait(StreamHandle stream, EventHandle event) = 0;
  /// Returns whether all work before the last record is done; true for an event never recorded. Any thread.
  virtual Result<bool> query(EventHandle event) = 0;
  /// Calls `callback` once when the work queued on `stream` so far is done, on a thread of the backend or inside a
  /// `synchronize`. Passes the first error since the last report; `synchronize` does not repeat it. The callback must
  /// only post: it must not call the backend or block. It is called even if the context is lost or the backend is
  /// destroyed first, but not if `notify` itself fails.
  virtual Result<void> notify(StreamHandle stream, std::function<void(Result<void>)> callback) = 0;

  // -- memory ----------------------------------------------------------------------------------

  /// Allocates in stream order, for later work of `stream`. Aligned to at least 256 bytes.
  virtual Result<void*> allocate(std::size_t bytes, StreamHandle stream) = 0;
  /// Frees memory allocated on `stream`, after all work that this backend has queued so far on any of its streams, so a
  /// program that returns early frees no memory that another stream still uses. Also waits for the last records of
  /// `readers`: events of other backends of the device whose work uses the memory. Any thread.
  virtual void free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept = 0;

  void free(void* pointer, StreamHandle stream) noexcept {
    free(pointer, stream, {});
  }

  /// Copies in stream order. The host side must stay valid until the copy is done.
  virtual Result<void> copy(void* target, const void* source, std::size_t bytes, CopyKind kind,
                            StreamHandle stream) = 0;
  /// Copies to any host memory, and waits until the stream has done this and all before it.
  virtual Result<void> fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) = 0;
  /// Copies from memory of another device of this process, which may be a decorator, in stream order. The work that
  /// computes `source` must be done, and `source` must live until the copy is done.
  /// @returns `unsupported` if this backend has no shorter way than through the host.
  virtual Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                                 StreamHandle stream) = 0;
  /// Sets every byte in stream order.
  virtual Result<void> fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) = 0;
  /// Returns the actual size of an allocation of `bytes`, which the quota counts.
  [[nodiscard]] virtual std::size_t footprint(std::size_t bytes) const noexcept = 0;

  /// Returns host memory for full-speed copies (pinned, where that makes a difference), aligned to at least 256 bytes
  /// and not zeroed. It may outlive the backend and be freed on any thread, once no copy uses it any more.
  virtual Result<std::shared_ptr<void>> host_memory(std::size_t bytes) = 0;

  /// Announces that work of this backend will use shared memory of `footprint` bytes that its device creates or opens;
  /// from then on, the backend caches that much less freed memory. Ends with `let_go`, or with `detach` if the memory
  /// could not be obtained. Any thread.
  virtual Result<void> attach(std::uint64_t footprint) = 0;
  virtual void detach(std::uint64_t footprint) noexcept = 0;
  /// Releases such memory like `free`: after all work queued so far, and after `readers`. Any thread.
  virtual void let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept = 0;
  /// Waits until all memory given to `let_go` is released. The backend's thread only.
  virtual void settle() noexcept = 0;

  // -- compute ---------------------------------------------------------------------------------

  /// Runs `kernel` over `extent`. Copies `pack` (`pack_bytes` long, at most `limits::kernel_argument_bytes`) before it
  /// returns.
  /// @returns `unsupported` for a kernel that has no code for this kind of device.
  virtual Result<void> launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack,
                              std::size_t pack_bytes, StreamHandle stream) = 0;
  /// Queues a matrix product; the caller has checked the arguments.
  virtual Result<void> gemm(const Gemm& product, StreamHandle stream) = 0;

  // -- graphs ----------------------------------------------------------------------------------

  /// Begins a capture: work that is queued on `stream` from now on is recorded and does not run. One stream of a
  /// backend at a time. Until `end_capture`, only launches, products (not the first of the backend), copies and fills
  /// may be queued on the stream, and nothing may wait for it. Memory may be freed meanwhile.
  virtual Result<void> begin_capture(StreamHandle stream) = 0;
  /// Ends a capture and returns the captured work. Called after every `begin_capture` that succeeded.
  virtual Result<std::shared_ptr<BackendGraph>> end_capture(StreamHandle stream) = 0;
  /// Runs work that this backend has captured, in the order of `stream`, which need not be the captured stream.
  virtual Result<void> launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) = 0;

  // -- other libraries -------------------------------------------------------------------------

  /// Makes the context of the streams' handles (CUDA) current on the calling thread until the result is destroyed, on
  /// the same thread.
  /// @returns `unsupported` if other libraries cannot use the handles.
  virtual Result<std::shared_ptr<void>> make_current() = 0;

  /// Compiles and loads a kernel for this device. May block (seconds for long sources the first time).
  /// @returns `unsupported` if there is no compiler or it is disabled, `invalid_argument` with the compiler's log.
  virtual Result<RuntimeKernel> compile(const KernelSource& source) = 0;
  /// Launches a kernel from `compile`; copies the arguments before it returns.
  virtual Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                              std::span<const KernelArgument> arguments, StreamHandle stream) = 0;
};

/// One device of this process. Any thread.
class Device {
public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;

  /// Returns the memory that the device reports now, for all holders.
  virtual Result<DeviceMemory> memory() = 0;

  /// Opens a backend for one lease, for use by the calling thread. May block (a CUDA context takes 0.2 to 1 s).
  /// @returns `device_lost` if the device does not exist; the text says what was offered and what exists.
  virtual Result<std::unique_ptr<Backend>> open(const BackendOptions& options) = 0;

  /// Returns the device behind all decorators, whose class tells its kind; this one, if it is no decorator.
  [[nodiscard]] virtual Device& undecorated() noexcept = 0;

  /// Returns whether this process has, or had, something open on the device, so that memory of other processes can be
  /// opened at once. Always false where none can be opened (host).
  [[nodiscard]] virtual bool is_open() const = 0;

  /// Returns the size that `make_shared_memory` takes on the device.
  /// @returns `unsupported` if the device has no such memory.
  virtual Result<std::size_t> shared_footprint(std::size_t bytes) = 0;

  /// Allocates memory that other processes of this machine can open, with undefined contents. No quota counts it.
  /// @returns `unsupported` if that is not possible (on host devices; host memory is shared otherwise),
  ///          `out_of_memory`.
  virtual Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes) = 0;

  /// Opens shared memory of another process, at least `bytes` large, for reading on this device. The memory may be on
  /// another device. The caller still owns `descriptor`.
  /// @returns `unsupported` if this device cannot reach it.
  virtual Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes) = 0;

  /// Destroys `what`. Where this may take long, another thread does it, so that the caller need not wait.
  virtual void dispose(std::shared_ptr<void> what) = 0;
};

/// What a backend does that has no better way: its host memory is ordinary memory, and it has neither shared memory nor
/// kernels from source nor streams for other libraries.
class BasicBackend : public Backend {
public:
  Result<void> fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) override;
  Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                         StreamHandle stream) override;
  Result<std::shared_ptr<void>> host_memory(std::size_t bytes) override;
  Result<void> attach(std::uint64_t footprint) override;
  void detach(std::uint64_t footprint) noexcept override;
  void let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept override;
  void settle() noexcept override;
  Result<std::shared_ptr<void>> make_current() override;
  Result<RuntimeKernel> compile(const KernelSource& source) override;
  using Backend::launch;
  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape, std::span<const KernelArgument> arguments,
                      StreamHandle stream) override;
};

/// A device that is no decorator and has no memory that processes share.
class BasicDevice : public Device {
public:
  [[nodiscard]] Device& undecorated() noexcept override;
  [[nodiscard]] bool is_open() const override;
  Result<std::size_t> shared_footprint(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes) override;
  void dispose(std::shared_ptr<void> what) override;
};

} // namespace gpuactors
