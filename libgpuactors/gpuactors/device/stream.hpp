// Stream: the order of work on a device: copies, kernels, matrix products, and waiting for them.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/block_kernel.hpp>
#include <gpuactors/device/gemm.hpp>
#include <gpuactors/device/graph.hpp>
#include <gpuactors/device/grid_kernel.hpp>
#include <gpuactors/device/launch_argument.hpp>
#include <gpuactors/device/mark.hpp>
#include <gpuactors/device/native_stream.hpp>
#include <gpuactors/device/tensor.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

namespace detail {
struct ContextState;
} // namespace detail

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

  /// Allocates `bytes` against the quota, for work queued on this stream from now on. Before another stream of the
  /// context uses the memory, make it `wait` for this stream: the memory may be recycled, and earlier work of this
  /// stream may still read the old contents.
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
    GPUACTORS_TRY(check_values(tensor, dtype_of<T>, values.size()));
    GPUACTORS_TRY(fetch(values.data(), tensor.raw(), tensor.bytes()));
    return values;
  }

  /// Copy all elements of a tensor from or to as many values on the host, in stream order. The values must stay valid
  /// until `synchronize`. From a `HostBuffer`, copies run at full speed and in parallel with other work.
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

  /// Copy a tensor from or to its bytes on the host, such as the field of a message, in stream order: like `upload` and
  /// `download`, for bytes whose element type the program knows only at run time.
  /// @returns `invalid_argument` for another number of bytes or an empty tensor, `lease_expired` if it was reclaimed.
  template <TensorBytes R>
  requires std::ranges::borrowed_range<R> Result<void> upload_bytes(Tensor& target, R&& bytes) {
    GPUACTORS_TRY(check_bytes(target, static_cast<std::size_t>(std::ranges::size(bytes))));
    return upload(target.raw(), std::ranges::data(bytes), target.bytes());
  }

  template <TensorBytes R>
  requires std::ranges::borrowed_range<R> Result<void> download_bytes(R&& bytes, const Tensor& source) {
    GPUACTORS_TRY(check_bytes(source, static_cast<std::size_t>(std::ranges::size(bytes))));
    return download(std::ranges::data(bytes), source.raw(), source.bytes());
  }

  /// Set all elements to zero, or each of their bytes to `value`, in stream order. To set elements to another value,
  /// launch `kernels::fill_value`.
  /// @returns `invalid_argument` for an empty tensor, `lease_expired` if it was reclaimed.
  Result<void> zero(Tensor& target);
  Result<void> fill_bytes(Tensor& target, std::uint8_t value);

  /// Returns a tensor in memory of another process that this device has open, for reading only. It counts against the
  /// quota like an allocation, because the memory stays on the device as long as it is read, even after its owner
  /// ended.
  /// @returns `invalid_argument` if the memory is smaller, `unsupported` on devices without such memory.
  Result<Tensor> attach(std::shared_ptr<SharedMemory> memory, DType dtype, std::vector<std::int64_t> shape);

  /// Copies raw memory to the host and waits for the copy; the fastest way into memory other than a `HostBuffer`.
  Result<void> fetch(void* host, const void* device, std::size_t bytes);

  /// Copy raw memory, or set its bytes, in stream order; host pointers must stay valid until `synchronize`. With host
  /// memory other than a `HostBuffer`, a copy on CUDA may block the calling thread until it is done.
  Result<void> upload(void* device, const void* host, std::size_t bytes);
  Result<void> download(void* host, const void* device, std::size_t bytes);
  Result<void> copy(void* target, const void* source, std::size_t bytes);
  Result<void> fill_bytes(void* target, std::uint8_t value, std::size_t bytes);

  /// Copies between tensors of the same type and size, in stream order.
  /// @returns `invalid_argument` if they differ or are empty, `lease_expired` if one was reclaimed.
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
    return launch(kernel.info, {n, {}}, &pack, sizeof(pack));
  }

  /// Runs a block kernel for the blocks 0..count-1 in stream order (block_kernel.hpp). Arguments that are pointers may
  /// be tensors.
  /// @returns the errors of a kernel over an index; also `invalid_argument` for more shared memory than the device has
  ///          for a block.
  template <class... Args>
  Result<void> launch(const BlockKernel<Args...>& kernel, const Blocks& blocks,
                      const std::type_identity_t<LaunchArgument<Args>>&... args) {
    if (((args.unusable() != nullptr) || ...)) [[unlikely]]
      return refuse(kernel.info, {TensorArgument{args.unusable(), args.dtype()}...});
    const detail::BlockPack<Args...> pack{blocks.count, blocks.shared_bytes, pack_arguments(args.value()...)};
    static_assert(sizeof(pack) <= limits::kernel_argument_bytes, "too many bytes of kernel arguments");
    return launch(kernel.info, blocks, kernel.threads, &pack, sizeof(pack));
  }

  /// Runs a grid kernel over the grid and blocks of `shape` in stream order (grid_kernel.hpp). Only CUDA uses the
  /// shape. Arguments that are pointers may be tensors.
  /// @returns the errors of a kernel over an index; also `unsupported` on a host device if the kernel was defined
  ///          without a function for it.
  template <class... Args>
  Result<void> launch(const GridKernel<Args...>& kernel, const LaunchShape& shape,
                      const std::type_identity_t<LaunchArgument<Args>>&... args) {
    if (((args.unusable() != nullptr) || ...)) [[unlikely]]
      return refuse(kernel.info, {TensorArgument{args.unusable(), args.dtype()}...});
    const auto pack = pack_arguments(args.value()...);
    static_assert(sizeof(pack) <= limits::kernel_argument_bytes, "too many bytes of kernel arguments");
    return launch(kernel.info, {1, shape}, &pack, sizeof(pack));
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

  /// Computes c = alpha * op(a) * op(b) + beta * c for matrices (2-dimensional), in stream order. `a` and `b` are of
  /// one type: f32, f64, f16 or bf16; `c` is of the same type, or f32 if theirs has 16 bits. Products of 16-bit
  /// elements sum and scale in f32 and round once.
  /// @returns `invalid_argument` with the shapes and types if they do not match, `unsupported` for other types,
  ///          `lease_expired` if a tensor was reclaimed.
  Result<void> gemm(const Tensor& a, const Tensor& b, Tensor& c, const GemmOptions& options = {});

  /// Overload on raw pointers, for sub-matrices; see `Gemm` for shapes.
  Result<void> gemm(const Gemm& product);

  // -- graphs ----------------------------------------------------------------------------------

  /// Captures what `work()`, which returns a `Result<void>`, queues on this stream as a graph, without running it. Each
  /// launch of the graph uses the same addresses and arguments, and costs less than its parts (on CUDA, it is a CUDA
  /// graph). Keep its tensors and host memory alive while it runs. Run the work once normally first, so that kernels
  /// are loaded and products are set up, and allocate beforehand: `work` may only launch, multiply, copy and fill on
  /// this stream.
  /// @returns the error of `work`; `invalid_argument` if it queued nothing, made another call, or contains the
  ///          context's first product; `unavailable` if another library in the process broke the capture: capture
  ///          again.
  template <class Work>
  Result<Graph> capture(Work&& work) {
    GPUACTORS_LET(capture, begin_capture());
    // The capture ends with this object, even if `work` throws.
    Result<void> outcome = work();
    return capture.end(std::move(outcome));
  }

  /// Runs a graph in stream order. It must have been captured in this stream's context, on any of its streams.
  /// @returns `invalid_argument` for an empty graph or one of another context.
  Result<void> launch(const Graph& graph);

  // -- order and completion --------------------------------------------------------------------

  /// Waits until all work queued so far is done; returns its first error. Blocks the caller.
  Result<void> synchronize();

  /// Calls `callback` once when the work queued so far is done, on a thread that must not block: only post from it.
  /// Exceptions are reported on standard error.
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
  /// Like `backend`, but refuses `call`, which a graph cannot have, during a capture.
  Result<Backend*> backend_beside_capture(const char* call) const;
  void retire() noexcept;

  Result<Tensor> tensor_from(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  /// Checks that a tensor is neither empty nor reclaimed.
  static Result<void> check_memory(const Tensor& tensor);
  static Result<void> check_values(const Tensor& tensor, DType dtype, std::size_t count);
  static Result<void> check_bytes(const Tensor& tensor, std::size_t bytes);

  /// A tensor that cannot be an argument, and the element type that is expected; null for one that can.
  struct TensorArgument {
    const Tensor* unusable;
    DType expected;
  };
  static Result<void> refuse(const KernelInfo& kernel, std::initializer_list<TensorArgument> arguments);
  Result<void> launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t pack_bytes);
  Result<void> launch(const KernelInfo& kernel, const Blocks& blocks, unsigned threads, const void* pack,
                      std::size_t pack_bytes);

  /// A capture in progress. It does not refer to the `Stream`, which may be moved meanwhile.
  class Capture {
  public:
    Capture(std::shared_ptr<detail::ContextState> state, StreamHandle handle);
    Capture(Capture&&) noexcept = default;
    Capture& operator=(Capture&&) = delete;
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture();

    Result<Graph> end(Result<void> outcome);

  private:
    /// Null once it has ended.
    std::shared_ptr<detail::ContextState> state_;
    StreamHandle handle_;
  };
  Result<Capture> begin_capture();

  std::shared_ptr<detail::ContextState> state_;
  StreamHandle handle_;
};

} // namespace gpuactors
