// Context: what a task or actor holds of one device. Everything it allocates is counted against the lease's quota, and
// is back when the context ends, whatever the program forgot.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/quota.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gpuactors {

class Buffer;
class Context;
class HostBuffer;
class Pin;
class Stream;
class Tensor;

/// What a context is opened with.
struct ContextOptions {
  /// Share of the device, above 0 and at most one whole.
  Share share = Share::whole(1);
  /// Most bytes that may be allocated at any instant; 0: the share's part of the device's memory.
  std::uint64_t memory_bytes = 0;
  /// Who holds it, for error texts.
  std::string holder = "context";
  /// The quota this one is carved out of, if it runs inside another lease.
  std::shared_ptr<Quota> parent = nullptr;
  /// Whether it may compile kernels from source.
  bool runtime_source = true;
};

namespace detail {
struct Block;
struct ContextState;
struct MarkState;
struct Storage;
} // namespace detail

/// Device memory, owned. Moved-from is empty. Freed after the work that its context has queued so far, on whatever
/// stream; work of another context that uses it needs a `Pin`, or `Tensor::pinned`.
///
/// A buffer that outlives its context (kept in a global, say) is emptied by the context: `data()` is then null.
/// One thread at a time, which need not be that of the context: a buffer may be handed over and dropped anywhere.
class Buffer {
public:
  Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() = default;

  /// Address on the device; null when empty or reclaimed.
  [[nodiscard]] void* data() const noexcept;

  template <class T>
  [[nodiscard]] T* data() const noexcept {
    return static_cast<T*>(data());
  }

  /// Size as asked for.
  [[nodiscard]] std::size_t bytes() const noexcept;

  explicit operator bool() const noexcept {
    return data() != nullptr;
  }

  /// Gives up ownership without freeing; the context still frees it at its end.
  void* release() noexcept;

private:
  friend class Pin;
  friend class Stream;
  friend class Tensor;
  explicit Buffer(std::shared_ptr<detail::Block> block) : block_(std::move(block)) {
    // nop
  }

  /// Null when empty or reclaimed.
  [[nodiscard]] std::shared_ptr<detail::Storage> storage() const;

  std::shared_ptr<detail::Block> block_;
};

/// A dense row-major array on a device: a buffer with element type and shape. Moved-from is empty.
class Tensor {
public:
  Tensor() = default;

  [[nodiscard]] DType dtype() const noexcept {
    return dtype_;
  }

  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept {
    return shape_;
  }

  /// Number of elements.
  [[nodiscard]] std::int64_t size() const noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(size()) * size_of(dtype_);
  }

  /// Address on the device; null when empty or reclaimed. `T` must be the element type.
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

  /// A second handle to the same memory for a reader elsewhere: the memory stays while it lives, beyond the end of the
  /// context it came from too, and stays counted against the owner's quota. Whoever drops it must be done reading.
  /// Empty when it was reclaimed already. Any thread.
  [[nodiscard]] Tensor pinned() const;

  /// The same for work of `reader`, a stream on the same device: it may go, on any thread, while that work is still
  /// queued. The memory is freed after all that is queued on `reader` by then.
  [[nodiscard]] Result<Tensor> pinned(Stream& reader) const;

  /// A copy in memory that other processes of this machine can open, in the same quota, which the end of the context
  /// takes away like the tensor itself. `through`, any stream on its device, copies, and is waited for: the work that
  /// makes the tensor must be done. Any thread that may use `through`.
  /// @param on_end called, on any thread, when that memory is unmapped here: it only posts.
  /// @returns `unsupported` where there is no such memory, `out_of_memory`, an empty tensor when this one was
  /// reclaimed.
  [[nodiscard]] Result<Tensor> shareable(Stream& through, std::function<void()> on_end) const;

  /// What other processes can open: of a tensor that `shareable` gave, null for any other. Any thread.
  [[nodiscard]] std::shared_ptr<SharedMemory> shared_memory() const;

private:
  friend class Pin;
  friend class Stream;
  Tensor(Buffer buffer, DType dtype, std::vector<std::int64_t> shape)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(std::move(shape)) {
    // nop
  }

  /// Another handle to its memory, which `storage` keeps.
  [[nodiscard]] Tensor viewed(std::shared_ptr<detail::Storage> storage) const;

  Buffer buffer_;
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
};

/// Memory of the host that copies to and from the device reach at full speed: pinned on CUDA, and taken from a pool, so
/// that making one is cheap the second time. Movable; moved-from is empty. May outlive its context and go on any
/// thread, but must stay until the copies that use it are done. It is host memory: no quota counts it.
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

private:
  friend class Context;
  HostBuffer(std::shared_ptr<void> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
    // nop
  }

  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

/// How `Stream::gemm` combines its operands.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  double beta = 0.0;
};

/// A stream as libraries of its device know it (cuDNN, NCCL), see `Stream::native`. Movable; it stays on the thread
/// that asked for it and goes before its stream.
class NativeStream {
public:
  /// On CUDA a `CUstream`, which is a `cudaStream_t` too.
  [[nodiscard]] void* handle() const noexcept {
    return handle_;
  }

private:
  friend class Stream;
  NativeStream(void* handle, std::shared_ptr<void> current) : handle_(handle), current_(std::move(current)) {
    // nop
  }

  void* handle_;
  std::shared_ptr<void> current_;
};

/// A point in the order of a stream, for work elsewhere on its device to wait for. Copyable; any thread. It may outlive
/// the context of its stream, and keeps nothing of it.
class Mark {
public:
  Mark() = default;

  explicit operator bool() const noexcept {
    return state_ != nullptr;
  }

private:
  friend class Stream;
  explicit Mark(std::shared_ptr<detail::MarkState> state) : state_(std::move(state)) {
    // nop
  }

  std::shared_ptr<detail::MarkState> state_;
};

/// An ordered queue of device work, and the place where all work is started. Movable; destroyed before its context it
/// waits for its work. Used by the thread of its context. After the end of its context every call fails with
/// `lease_expired`.
class Stream {
public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // -- memory ----------------------------------------------------------------------------------

  /// Allocates `bytes` against the quota.
  /// @returns `invalid_argument` for zero, `out_of_memory` (asked, used, limit) when the quota does not allow it.
  Result<Buffer> allocate(std::size_t bytes);

  /// Allocates a tensor; contents are undefined.
  /// @returns `invalid_argument` for a dimension below 1, more than 8 dimensions, or a size that overflows.
  Result<Tensor> tensor(DType dtype, std::vector<std::int64_t> shape);

  /// Allocates a tensor and uploads `values` (as many as the shape has elements). `values` may go when it returns.
  template <class T>
  Result<Tensor> tensor_from(std::span<const T> values, std::vector<std::int64_t> shape) {
    return tensor_from(values.data(), values.size(), dtype_of<T>, std::move(shape));
  }

  template <class T>
  Result<Tensor> tensor_from(const std::vector<T>& values, std::vector<std::int64_t> shape) {
    return tensor_from(values.data(), values.size(), dtype_of<T>, std::move(shape));
  }

  /// Copies to the host and waits for it. An empty tensor gives an empty vector.
  template <class T>
  Result<std::vector<T>> to_host(const Tensor& tensor) {
    std::vector<T> values(static_cast<std::size_t>(tensor.size()));
    GPUACTORS_TRY(download(values.data(), values.size(), dtype_of<T>, tensor));
    return values;
  }

  /// A tensor in memory that another process made and this device has open, charged to the quota as if it were
  /// allocated: what is read stays on the device as long as it is read, whatever becomes of its owner. For reading.
  /// @returns `invalid_argument` when the memory is smaller, `unsupported` on devices without such memory.
  Result<Tensor> attach(std::shared_ptr<SharedMemory> memory, DType dtype, std::vector<std::int64_t> shape);

  /// Raw copies in stream order; pointers on the host side must stay valid until `synchronize`.
  Result<void> upload(void* device, const void* host, std::size_t bytes);
  Result<void> download(void* host, const void* device, std::size_t bytes);
  Result<void> copy(void* target, const void* source, std::size_t bytes);
  Result<void> fill(void* target, std::uint8_t value, std::size_t bytes);

  /// Copies between tensors of the same type and size, in stream order.
  Result<void> copy(Tensor& target, const Tensor& source);

  /// A raw copy from another device of this process; the work that made `source` is done, and it stays until the copy
  /// is.
  /// @returns `unsupported` when these devices know no way but through the host.
  Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes);

  // -- compute ---------------------------------------------------------------------------------

  /// Runs `kernel` for the indices 0..n-1 in stream order. `n` of zero is `invalid_argument`.
  template <class... Args>
  Result<void> launch(const Kernel<Args...>& kernel, std::uint64_t n, std::type_identity_t<Args>... args) {
    const auto pack = pack_arguments(args...);
    static_assert(sizeof(pack) <= limits::kernel_argument_bytes, "too many bytes of kernel arguments");
    return launch(kernel.info, n, &pack, sizeof(pack));
  }

  /// Runs a kernel that was compiled at run time, in stream order. The arguments must be of the types that it declares:
  /// their number and sizes are checked, where the driver tells them (CUDA 12.4 or later), and nothing else.
  /// @returns `invalid_argument` for an empty kernel, a dimension of 0, and arguments that cannot be the kernel's.
  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape, std::span<const KernelArgument> arguments);

  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                      std::initializer_list<KernelArgument> arguments) {
    return launch(kernel, shape, std::span{arguments.begin(), arguments.size()});
  }

  /// c = alpha * op(a) * op(b) + beta * c for matrices (2-dimensional, f32 or f64, all alike), in stream order.
  /// @returns `invalid_argument` with the shapes when they do not fit.
  Result<void> gemm(const Tensor& a, const Tensor& b, Tensor& c, const GemmOptions& options = {});

  /// The same on raw pointers, for sub-matrices; see `Gemm` for shapes.
  Result<void> gemm(const Gemm& product);

  // -- order and completion --------------------------------------------------------------------

  /// Waits until all work queued so far is done; returns its first error. Blocks the caller.
  Result<void> synchronize();

  /// Calls `callback` once when the work queued so far is done, on a thread that must not be blocked: it only posts.
  Result<void> notify(std::function<void(Result<void>)> callback);

  /// Later work of this stream waits for what `other` (of the same device) has queued so far.
  Result<void> wait(Stream& other);

  /// The stream for libraries of others, with its CUDA context current on this thread as long as the result lives. What
  /// they put on it is in order with the work of this stream. Memory that they take by themselves is not counted.
  /// @returns `unsupported` on devices other than CUDA.
  Result<NativeStream> native();

  /// The point behind all work queued so far.
  Result<Mark> mark();

  /// Later work of this stream waits for `mark`, which was made on the same device in this process. The thread does
  /// not.
  /// @returns `invalid_argument` for an empty one.
  Result<void> wait(const Mark& mark);

  /// The context it belongs to, which must not have ended.
  [[nodiscard]] Context& context() const noexcept;

private:
  friend class Context;
  friend class Tensor;
  Stream(std::shared_ptr<detail::ContextState> state, StreamHandle handle);

  /// The backend, or why there is none.
  Result<Backend*> backend() const;
  void retire() noexcept;

  Result<Tensor> tensor_from(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  Result<void> download(void* values, std::size_t count, DType dtype, const Tensor& tensor);
  Result<void> launch(const KernelInfo& kernel, std::uint64_t n, const void* pack, std::size_t pack_bytes);

  std::shared_ptr<detail::ContextState> state_;
  StreamHandle handle_;
};

/// What a task or actor holds of one device: quota, streams, memory, compute.
///
/// Lifecycle: open -> used by one thread (the one that opened it) -> closed or destroyed by that thread. At its end
/// every allocation that is still there is freed, except blocks pinned by a reader elsewhere (`Pin`), which go when
/// their last pin goes. `memory_*` may be asked from any thread.
class Context {
public:
  /// Opens a share of `device`, which must outlive the context and all its pins.
  /// @returns `invalid_argument` for a share outside (0, 1]; what `Device::open` reports.
  static Result<std::unique_ptr<Context>> open(std::shared_ptr<Device> device, ContextOptions options);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const DeviceInfo& device() const noexcept;

  /// The device itself, to open another context on it.
  [[nodiscard]] const std::shared_ptr<Device>& device_handle() const noexcept;

  /// What was really granted.
  [[nodiscard]] ContextGrant granted() const;

  /// The default stream of this context.
  [[nodiscard]] Stream& stream() noexcept;

  /// One more stream, whose work may overlap with that of others.
  Result<Stream> make_stream();

  /// Host memory for copies; contents are undefined.
  /// @returns `invalid_argument` for zero, `out_of_memory` when the host has no more.
  Result<HostBuffer> host_buffer(std::size_t bytes);

  /// Compiles a kernel for this device, or takes it from the cache; may block. It can be used on the streams of any
  /// context of the device in this process.
  /// @returns `unsupported` on devices other than CUDA, without NVRTC, with GPUACTORS_JIT=off, and on nodes that take
  /// no source (`--no-jit`); `invalid_argument` with the compiler's log, lines included, when the source is wrong.
  Result<RuntimeKernel> compile(const KernelSource& source);

  /// The quota; children that run inside this lease take it as their parent.
  [[nodiscard]] const std::shared_ptr<Quota>& quota() const noexcept;

  [[nodiscard]] std::uint64_t memory_used() const noexcept;
  [[nodiscard]] std::uint64_t memory_peak() const noexcept;
  [[nodiscard]] std::uint64_t memory_limit() const noexcept;

  /// Frees every allocation that is not pinned, whoever holds its `Buffer`, after the work that uses it. The context
  /// can be used again. Called between tasks that run under one lease.
  /// @returns the bytes that were still allocated, pinned ones not counted, or the error of the outstanding work.
  Result<std::uint64_t> reclaim();

  /// Whether the device is lost to this process by a sticky error (`context_lost`). Any thread.
  [[nodiscard]] bool lost() const noexcept;

private:
  explicit Context(std::shared_ptr<detail::ContextState> state);

  std::shared_ptr<detail::ContextState> state_;
  std::shared_ptr<Quota> quota_;
  std::optional<Stream> stream_;
};

/// Keeps the memory of a tensor readable for somebody who is not its owner, also beyond the end of its context. Counted
/// against the owner's quota until the last pin goes. Copies of a pin may live and go on any thread; whoever drops the
/// last one must be done reading.
class Pin {
public:
  Pin() = default;

  /// Pins `tensor`; empty when its memory was reclaimed already.
  explicit Pin(const Tensor& tensor);

  [[nodiscard]] void* data() const noexcept;

  explicit operator bool() const noexcept {
    return data() != nullptr;
  }

private:
  std::shared_ptr<void> hold_;
  void* data_ = nullptr;
};

} // namespace gpuactors
