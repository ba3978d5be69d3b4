// Context: a task's or actor's part of one device. Everything allocated through it counts against the lease's quota and
// is freed when the context ends, even if the program forgot to.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/quota.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace gpuactors {

class Buffer;
class Context;
class HostBuffer;
class Pin;
class Stream;
class Tensor;

/// Options for opening a context.
struct ContextOptions {
  /// Share of the device, above 0 and at most one whole.
  Share share = Share::whole(1);
  /// The limit of allocated bytes at any instant; 0: the same share of the device's memory.
  std::uint64_t memory_bytes = 0;
  /// The name of the holder, for error texts.
  std::string holder = "context";
  /// The quota that this one is a part of, if the context runs inside another lease.
  std::shared_ptr<Quota> parent = nullptr;
  /// Whether the context may compile kernels from source.
  bool runtime_source = true;
};

namespace detail {
struct Block;
struct ContextState;
struct MarkState;
struct Storage;
} // namespace detail

/// Owns device memory. Empty after a move. The memory is freed after all work that its context has queued so far, on
/// any stream; work of another context that uses it needs a `Pin` or `Tensor::pinned`.
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
  friend class Pin;
  friend class Stream;
  friend class Tensor;
  explicit Buffer(std::shared_ptr<detail::Block> block) : block_(std::move(block)) {
    // nop
  }

  /// Returns null if empty or reclaimed.
  [[nodiscard]] std::shared_ptr<detail::Storage> storage() const;

  std::shared_ptr<detail::Block> block_;
};

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
  friend class Pin;
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

/// One argument of `Stream::launch`, of the kernel's type `A`: a value; where that is a pointer to elements, also a
/// tensor, which is checked before the kernel starts. A raw pointer is taken as it is, and may be null.
template <class A>
class LaunchArgument {
  using Element = std::remove_const_t<std::remove_pointer_t<A>>;
  static constexpr bool takes_tensor = std::is_pointer_v<A> && TensorElement<Element>;
  static constexpr bool only_reads = std::is_const_v<std::remove_pointer_t<A>>;

public:
  LaunchArgument(A value) : value_(value) { // NOLINT(*-explicit-*): arguments are written as they are
    // nop
  }

  LaunchArgument(Tensor& tensor) requires takes_tensor // NOLINT(*-explicit-*)
    : value_(tensor.data<Element>()),
      tensor_(&tensor) {
    // nop
  }

  LaunchArgument(const Tensor& tensor) requires(takes_tensor&& only_reads) // NOLINT(*-explicit-*)
    : value_(tensor.data<Element>()), tensor_(&tensor) {
    // nop
  }

  [[nodiscard]] A value() const noexcept {
    return value_;
  }

  /// Returns the tensor if the kernel cannot use it (of another type, empty or reclaimed), otherwise null.
  [[nodiscard]] const Tensor* unusable() const noexcept {
    if constexpr (takes_tensor)
      return value_ == nullptr ? tensor_ : nullptr;
    else
      return nullptr;
  }

  /// Returns the element type that the kernel takes.
  [[nodiscard]] static constexpr DType dtype() noexcept {
    if constexpr (takes_tensor)
      return dtype_of<Element>;
    else
      return DType::u8;
  }

private:
  A value_;
  const Tensor* tensor_ = nullptr;
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

/// How `Stream::gemm` combines its operands.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  double beta = 0.0;
};

/// A stream for libraries of its device (cuDNN, NCCL), see `Stream::native`. Movable. Keep it on the thread that
/// requested it, and destroy it before its stream.
class NativeStream {
public:
  /// Returns the native handle: on CUDA a `CUstream`, which is also a `cudaStream_t`.
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

/// A point in the order of a stream that other work on the device can wait for. Copyable; any thread. It may outlive
/// the context of its stream, and keeps nothing of it alive.
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

/// An ordered queue of device work; all work starts on a stream. Movable. If destroyed before its context, it first
/// waits for its queued work. For the thread of its context only. After the end of its context, every call fails with
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
  /// @returns `invalid_argument` for zero, `out_of_memory` (with request, use and limit) beyond the quota.
  Result<Buffer> allocate(std::size_t bytes);

  /// Allocates a tensor with undefined contents.
  /// @returns `invalid_argument` for a dimension below 1, more than 8 dimensions, or a size that overflows.
  Result<Tensor> tensor(DType dtype, std::vector<std::int64_t> shape);

  /// Allocates a tensor and uploads `values` (as many as the shape has elements); without a shape, it has one
  /// dimension. Waits for the copy: `values` need not outlive the call.
  template <TensorValues R>
  Result<Tensor> tensor_from(const R& values, std::vector<std::int64_t> shape = {}) {
    if (shape.empty())
      shape = {static_cast<std::int64_t>(std::ranges::size(values))};
    return tensor_from(std::ranges::data(values), static_cast<std::size_t>(std::ranges::size(values)),
                       dtype_of<ElementOf<R>>, std::move(shape));
  }

  /// Copies a tensor to the host and waits for the copy. An empty tensor gives an empty vector.
  template <class T>
  Result<std::vector<T>> to_host(const Tensor& tensor) {
    std::vector<T> values(static_cast<std::size_t>(tensor.size()));
    if (values.empty())
      return values;
    GPUACTORS_TRY(download(std::span{values}, tensor));
    GPUACTORS_TRY(synchronize());
    return values;
  }

  /// Copy all elements of a tensor from or to as many values on the host, or set each of its bytes, in stream order.
  /// The values must stay valid until `synchronize`. From a `HostBuffer`, copies run at full speed beside other work.
  /// @returns `invalid_argument` for another element type or number, `lease_expired` if the tensor was reclaimed.
  template <TensorValues R>
  requires std::ranges::borrowed_range<R> Result<void> upload(Tensor& target, R&& values) {
    GPUACTORS_TRY(check_values(target, dtype_of<ElementOf<R>>, static_cast<std::size_t>(std::ranges::size(values))));
    return upload(target.raw(), std::ranges::data(values), target.bytes());
  }

  template <TensorValues R>
  requires std::ranges::borrowed_range<R> Result<void> download(R&& values, const Tensor& source) {
    GPUACTORS_TRY(check_values(source, dtype_of<ElementOf<R>>, static_cast<std::size_t>(std::ranges::size(values))));
    return download(std::ranges::data(values), source.raw(), source.bytes());
  }

  Result<void> fill(Tensor& target, std::uint8_t value);

  /// Returns a tensor in memory of another process that this device has open, for reading only. It counts against the
  /// quota like an allocation, because the memory stays on the device as long as it is read, even after its owner
  /// ended.
  /// @returns `invalid_argument` if the memory is smaller, `unsupported` on devices without such memory.
  Result<Tensor> attach(std::shared_ptr<SharedMemory> memory, DType dtype, std::vector<std::int64_t> shape);

  /// Copy or fill raw memory in stream order; host pointers must stay valid until `synchronize`.
  Result<void> upload(void* device, const void* host, std::size_t bytes);
  Result<void> download(void* host, const void* device, std::size_t bytes);
  Result<void> copy(void* target, const void* source, std::size_t bytes);
  Result<void> fill(void* target, std::uint8_t value, std::size_t bytes);

  /// Copies between tensors of the same type and size, in stream order.
  Result<void> copy(Tensor& target, const Tensor& source);

  /// Copies raw memory from another device of this process. The work that computes `source` must be done, and `source`
  /// must live until the copy is done.
  /// @returns `unsupported` if these devices can only copy through the host.
  Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes);

  // -- compute ---------------------------------------------------------------------------------

  /// Runs `kernel` for the indices 0..n-1 in stream order. Arguments that are pointers may be tensors.
  /// @returns `invalid_argument` for `n` of zero and for a tensor of another type or an empty one, `lease_expired` for
  ///          one that was reclaimed.
  template <class... Args>
  Result<void> launch(const Kernel<Args...>& kernel, std::uint64_t n,
                      const std::type_identity_t<LaunchArgument<Args>>&... args) {
    if (((args.unusable() != nullptr) || ...)) [[unlikely]]
      return refuse(kernel.info, {TensorArgument{args.unusable(), args.dtype()}...});
    const auto pack = pack_arguments(args.value()...);
    static_assert(sizeof(pack) <= limits::kernel_argument_bytes, "too many bytes of kernel arguments");
    return launch(kernel.info, n, &pack, sizeof(pack));
  }

  /// Runs a kernel compiled at run time, in stream order. The arguments must have the declared types; only their number
  /// and sizes are checked, and only if the driver reports them (CUDA 12.4 or later). Arguments may be tensors.
  /// @returns `invalid_argument` for an empty kernel, a dimension of 0, a tensor without memory, or arguments that do
  ///          not match the kernel.
  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape, std::span<const KernelArgument> arguments);

  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                      std::initializer_list<KernelArgument> arguments) {
    return launch(kernel, shape, std::span{arguments.begin(), arguments.size()});
  }

  /// Computes c = alpha * op(a) * op(b) + beta * c for matrices (2-dimensional, all f32 or all f64), in stream order.
  /// @returns `invalid_argument` with the shapes if they do not match.
  Result<void> gemm(const Tensor& a, const Tensor& b, Tensor& c, const GemmOptions& options = {});

  /// Computes the same product on raw pointers, for sub-matrices; see `Gemm` for shapes.
  Result<void> gemm(const Gemm& product);

  // -- order and completion --------------------------------------------------------------------

  /// Waits until all work queued so far is done; returns its first error. Blocks the caller.
  Result<void> synchronize();

  /// Calls `callback` once when the work queued so far is done, on a thread that must not block: only post from it.
  Result<void> notify(std::function<void(Result<void>)> callback);

  /// Makes later work of this stream wait for all work that `other` (of the same device) has queued so far.
  Result<void> wait(Stream& other);

  /// Returns the stream for other libraries, and makes its CUDA context current on this thread while the result lives.
  /// Their work on it is in order with the work of this stream. Memory that they allocate themselves is not counted.
  /// @returns `unsupported` on devices other than CUDA.
  Result<NativeStream> native();

  /// Returns a mark after all work queued so far.
  Result<Mark> mark();

  /// Makes later work of this stream wait for `mark`, from a stream of the same device in this process. Does not block
  /// the thread.
  /// @returns `invalid_argument` for an empty mark.
  Result<void> wait(const Mark& mark);

  /// Returns the stream's context, which must not have ended.
  [[nodiscard]] Context& context() const noexcept;

private:
  friend class Context;
  friend class Tensor;
  Stream(std::shared_ptr<detail::ContextState> state, StreamHandle handle);

  /// Returns the backend, or the reason why there is none.
  Result<Backend*> backend() const;
  void retire() noexcept;

  Result<Tensor> tensor_from(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  static Result<void> check_values(const Tensor& tensor, DType dtype, std::size_t count);

  /// A tensor that cannot be an argument, and the element type that is expected; null for one that can.
  struct TensorArgument {
    const Tensor* unusable;
    DType expected;
  };
  static Result<void> refuse(const KernelInfo& kernel, std::initializer_list<TensorArgument> arguments);
  Result<void> launch(const KernelInfo& kernel, std::uint64_t n, const void* pack, std::size_t pack_bytes);

  std::shared_ptr<detail::ContextState> state_;
  StreamHandle handle_;
};

/// A task's or actor's part of one device: quota, streams, memory, compute.
///
/// Lifecycle: open -> used by one thread (the one that opened it) -> closed or destroyed by that thread. At its end,
/// all remaining allocations are freed, except blocks pinned by a reader elsewhere (`Pin`), which are freed with their
/// last pin. `memory_*` may be called from any thread.
class Context {
public:
  /// Opens a share of `device`, which must outlive the context and all its pins.
  /// @returns `invalid_argument` for a share outside (0, 1]; the errors of `Device::open`.
  static Result<std::unique_ptr<Context>> open(std::shared_ptr<Device> device, ContextOptions options);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const DeviceInfo& device() const noexcept;

  /// Returns the device itself, for opening another context on it.
  [[nodiscard]] const std::shared_ptr<Device>& device_handle() const noexcept;

  /// Returns the actual grant.
  [[nodiscard]] ContextGrant granted() const;

  /// Returns the default stream of this context.
  [[nodiscard]] Stream& stream() noexcept;

  /// Creates another stream, whose work may overlap with that of others.
  Result<Stream> make_stream();

  /// Returns host memory for copies, with undefined contents.
  /// @returns `invalid_argument` for zero, `out_of_memory` if the host has no more.
  Result<HostBuffer> host_buffer(std::size_t bytes);

  /// Compiles a kernel for this device, or takes it from the cache; may block. The kernel works on the streams of any
  /// context of the device in this process.
  /// @returns `unsupported` on devices other than CUDA, without NVRTC, with GPUACTORS_JIT=off, and on nodes that refuse
  ///          source (`--no-jit`); `invalid_argument` with the compiler's log, including lines, if the source is wrong.
  Result<RuntimeKernel> compile(const KernelSource& source);

  /// Returns the quota, which is the parent of the quotas of children inside this lease.
  [[nodiscard]] const std::shared_ptr<Quota>& quota() const noexcept;

  [[nodiscard]] std::uint64_t memory_used() const noexcept;
  [[nodiscard]] std::uint64_t memory_peak() const noexcept;
  [[nodiscard]] std::uint64_t memory_limit() const noexcept;

  /// Frees every allocation that is not pinned, even if its `Buffer` still exists, after the work that uses it. The
  /// context stays usable. Called between tasks of one lease.
  /// @returns the bytes that were still allocated, without pinned ones, or the error of the outstanding work.
  Result<std::uint64_t> reclaim();

  /// Returns whether a sticky error has lost the device to this process (`context_lost`). Any thread.
  [[nodiscard]] bool lost() const noexcept;

private:
  explicit Context(std::shared_ptr<detail::ContextState> state);

  std::shared_ptr<detail::ContextState> state_;
  std::shared_ptr<Quota> quota_;
  std::optional<Stream> stream_;
};

/// Keeps the memory of a tensor readable for readers other than its owner, even beyond the end of its context. The
/// memory counts against the owner's quota until the last pin is destroyed. Copies of a pin may live and be destroyed
/// on any thread; finish reading before you destroy the last one.
class Pin {
public:
  Pin() = default;

  /// Pins `tensor`; empty if its memory was already reclaimed.
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
