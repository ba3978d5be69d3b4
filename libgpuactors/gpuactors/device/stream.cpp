// Stream: starting work, with every argument checked before a backend sees it.
#include <gpuactors/device/detail/context_state.hpp>
#include <gpuactors/device/shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <string_view>

namespace gpuactors {

namespace {

Result<void> check_transfer(const void* target, const void* source, std::size_t bytes) {
  if (target == nullptr || source == nullptr)
    return fail(Errc::invalid_argument, fmt::format("a copy of {} B was asked for with a null {}", bytes,
                                                    target == nullptr ? "target" : "source"));
  if (bytes == 0)
    return fail(Errc::invalid_argument, "a copy of 0 B was asked for; at least 1 B is needed");
  return {};
}

bool has_16_bits(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

/// Returns whether a matrix product of elements of `dtype` may have this type.
bool may_result_in(DType dtype, DType result) {
  return result == dtype || (has_16_bits(dtype) && result == DType::f32);
}

/// Returns whether a matrix of rows x columns with this leading dimension is addressable.
bool fits(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  std::int64_t elements = 0;
  return leading >= columns && !__builtin_mul_overflow(rows, leading, &elements);
}

Result<void> check_gemm(const Gemm& g) {
  if (g.dtype != DType::f32 && g.dtype != DType::f64 && !has_16_bits(g.dtype))
    return fail(Errc::unsupported,
                fmt::format("matrix products are of f32, f64, f16 or bf16, not {}", to_string(g.dtype)));
  if (!may_result_in(g.dtype, g.result_type()))
    return fail(Errc::unsupported,
                fmt::format("a matrix product of {0} has a result of {0}{1}, not {2}", to_string(g.dtype),
                            has_16_bits(g.dtype) ? " or f32" : "", to_string(g.result_type())));
  if (g.m < 1 || g.n < 1 || g.k < 1)
    return fail(Errc::invalid_argument,
                fmt::format("a matrix product needs dimensions of at least 1, not m={} n={} k={}", g.m, g.n, g.k));
  if (g.a == nullptr || g.b == nullptr || g.c == nullptr)
    return fail(Errc::invalid_argument, "a matrix product was asked for with a null matrix");
  const auto a_ok = g.transpose_a ? fits(g.k, g.m, g.lda) : fits(g.m, g.k, g.lda);
  const auto b_ok = g.transpose_b ? fits(g.n, g.k, g.ldb) : fits(g.k, g.n, g.ldb);
  if (!a_ok || !b_ok || !fits(g.m, g.n, g.ldc))
    return fail(Errc::invalid_argument, fmt::format("leading dimensions lda={} ldb={} ldc={} do not fit m={} n={} k={}",
                                                    g.lda, g.ldb, g.ldc, g.m, g.n, g.k));
  return {};
}

Result<void> check_shape(std::string_view kernel, const LaunchShape& shape) {
  for (const auto& dimensions : {shape.grid, shape.block})
    if (dimensions[0] == 0 || dimensions[1] == 0 || dimensions[2] == 0)
      return fail(Errc::invalid_argument,
                  fmt::format("kernel {} was started with grid [{}] and blocks [{}]; each dimension is at least 1",
                              kernel, fmt::join(shape.grid, ", "), fmt::join(shape.block, ", ")));
  return {};
}

/// Checks the number and sizes of the arguments: the driver reads as many bytes as the kernel declares, even beyond the
/// end of an argument.
Result<void> check_arguments(const RuntimeKernel::Loaded& kernel, std::span<const KernelArgument> arguments) {
  if (!kernel.arguments)
    return {};
  const auto fits = [](const KernelArgument& argument, std::size_t size) { return argument.size() == size; };
  if (std::equal(arguments.begin(), arguments.end(), kernel.arguments->begin(), kernel.arguments->end(), fits))
    return {};
  std::vector<std::size_t> sizes;
  for (const auto& argument : arguments)
    sizes.push_back(argument.size());
  return fail(Errc::invalid_argument,
              fmt::format("kernel {} declares {} arguments of [{}] B and was given {} of [{}] B", kernel.name,
                          kernel.arguments->size(), fmt::join(*kernel.arguments, ", "), sizes.size(),
                          fmt::join(sizes, ", ")));
}

} // namespace

// -- lifetime ------------------------------------------------------------------------------------

Stream::Stream(std::shared_ptr<detail::ContextState> state, StreamHandle handle)
  : state_(std::move(state)), handle_(handle) {
  // nop
}

Stream::Stream(Stream&& other) noexcept : state_(std::move(other.state_)), handle_(std::exchange(other.handle_, {})) {
  // nop
}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    retire();
    state_ = std::move(other.state_);
    handle_ = std::exchange(other.handle_, {});
  }
  return *this;
}

Stream::~Stream() {
  retire();
}

void Stream::retire() noexcept {
  if (const auto state = std::move(state_))
    state->put_stream(handle_);
  state_.reset();
}

Result<Backend*> Stream::backend_beside_capture(const char* call) const {
  GPUACTORS_LET(found, backend());
  if (state_->captured.native != handle_.native)
    return found;
  Error error{
      Errc::invalid_argument,
      fmt::format("{} cannot be part of a graph: while a stream is captured it takes launches, products, copies "
                  "and fills",
                  call)};
  if (!state_->refused)
    state_->refused = error;
  return fail(std::move(error));
}

Result<Backend*> Stream::backend() const {
  if (state_ == nullptr)
    return fail(Errc::invalid_argument, "the stream was moved from");
  if (state_->ground == nullptr)
    return fail(Errc::lease_expired, "the context of this stream has ended");
  state_->rests = false;
  return state_->ground->backend.get();
}

Context& Stream::context() const noexcept {
  assert(state_ != nullptr && state_->context != nullptr);
  return *state_->context;
}

// -- memory --------------------------------------------------------------------------------------

Result<Buffer> Stream::allocate(std::size_t bytes) {
  GPUACTORS_TRY(backend_beside_capture("an allocation"));
  GPUACTORS_LET(block, state_->allocate(bytes, handle_));
  return Buffer{std::move(block)};
}

Result<void> Stream::upload(void* device, const void* host, std::size_t bytes) {
  GPUACTORS_LET(to, backend());
  GPUACTORS_TRY(check_transfer(device, host, bytes));
  return to->copy(device, host, bytes, CopyKind::host_to_device, handle_);
}

Result<void> Stream::download(void* host, const void* device, std::size_t bytes) {
  GPUACTORS_LET(from, backend());
  GPUACTORS_TRY(check_transfer(host, device, bytes));
  return from->copy(host, device, bytes, CopyKind::device_to_host, handle_);
}

Result<void> Stream::fetch(void* host, const void* device, std::size_t bytes) {
  GPUACTORS_LET(from, backend_beside_capture("a copy that is waited for"));
  GPUACTORS_TRY(check_transfer(host, device, bytes));
  GPUACTORS_TRY(from->fetch(host, device, bytes, handle_));
  state_->has_waited();
  return {};
}

Result<void> Stream::copy(void* target, const void* source, std::size_t bytes) {
  GPUACTORS_LET(on, backend());
  GPUACTORS_TRY(check_transfer(target, source, bytes));
  return on->copy(target, source, bytes, CopyKind::device_to_device, handle_);
}

Result<void> Stream::copy_from(Device& other, void* target, const void* source, std::size_t bytes) {
  GPUACTORS_LET(on, backend_beside_capture("a copy from another device"));
  GPUACTORS_TRY(check_transfer(target, source, bytes));
  return on->copy_from(other, target, source, bytes, handle_);
}

Result<void> Stream::fill_bytes(void* target, std::uint8_t value, std::size_t bytes) {
  GPUACTORS_LET(on, backend());
  if (target == nullptr || bytes == 0)
    return fail(Errc::invalid_argument, "a fill needs a target and at least 1 B");
  return on->fill(target, value, bytes, handle_);
}

// -- compute -------------------------------------------------------------------------------------

Result<void> Stream::launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack,
                            std::size_t pack_bytes) {
  GPUACTORS_LET(on, backend());
  if (extent.count == 0)
    return fail(Errc::invalid_argument, fmt::format("kernel {} was started over 0 {}; at least 1 is needed",
                                                    kernel.name, extent.shape ? "blocks" : "indices"));
  if (extent.shape)
    GPUACTORS_TRY(check_shape(kernel.name, *extent.shape));
  return on->launch(kernel, extent, pack, pack_bytes, handle_);
}

Result<void> Stream::launch(const KernelInfo& kernel, const Blocks& blocks, unsigned threads, const void* pack,
                            std::size_t pack_bytes) {
  if (blocks.shared_bytes > limits::most_shared_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("kernel {} was started with {} B of shared memory for each block; {} B "
                            "is the most",
                            kernel.name, blocks.shared_bytes, limits::most_shared_bytes));
  // What is beyond the largest grid, the blocks take over in turns.
  constexpr std::uint64_t largest_grid = std::numeric_limits<std::int32_t>::max();
  const auto grid = static_cast<unsigned>(std::clamp<std::uint64_t>(blocks.count, 1, largest_grid));
  const LaunchShape shape{{grid, 1, 1}, {threads, 1, 1}, static_cast<unsigned>(blocks.shared_bytes)};
  return launch(kernel, {blocks.count, shape}, pack, pack_bytes);
}

Result<void> Stream::launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                            std::span<const KernelArgument> arguments) {
  GPUACTORS_LET(on, backend());
  if (!kernel)
    return fail(Errc::invalid_argument, "the kernel is empty: compile one first");
  GPUACTORS_TRY(check_shape(kernel.name(), shape));
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].is_missing())
      return fail(Errc::invalid_argument,
                  fmt::format("argument {} of kernel {} is a tensor without memory: it is empty, "
                              "or was reclaimed",
                              i + 1, kernel.name()));
  GPUACTORS_TRY(check_arguments(kernel.loaded(), arguments));
  return on->launch(kernel, shape, arguments, handle_);
}

Result<void> Stream::gemm(const Tensor& a, const Tensor& b, Tensor& c, const GemmOptions& options) {
  const auto describe = [&] {
    return fmt::format("a {} {}{}, b {} {}{}, c {} {}", to_string(a.dtype()), detail::format_shape(a.shape()),
                       options.transpose_a ? " transposed" : "", to_string(b.dtype()), detail::format_shape(b.shape()),
                       options.transpose_b ? " transposed" : "", to_string(c.dtype()), detail::format_shape(c.shape()));
  };
  if (a.shape().size() != 2 || b.shape().size() != 2 || c.shape().size() != 2)
    return fail(Errc::invalid_argument, "a matrix product needs 2 dimensions each: " + describe());
  for (const auto* matrix : {&a, &b, static_cast<const Tensor*>(&c)})
    GPUACTORS_TRY(check_memory(*matrix));
  if (a.dtype() != b.dtype() || !may_result_in(a.dtype(), c.dtype()))
    return fail(Errc::invalid_argument,
                "a matrix product needs one element type, but for an f32 result of f16 or bf16: " + describe());
  Gemm product;
  product.dtype = a.dtype();
  product.result = c.dtype();
  product.transpose_a = options.transpose_a;
  product.transpose_b = options.transpose_b;
  product.m = a.shape()[options.transpose_a ? 1 : 0];
  product.k = a.shape()[options.transpose_a ? 0 : 1];
  product.n = b.shape()[options.transpose_b ? 0 : 1];
  if (b.shape()[options.transpose_b ? 1 : 0] != product.k || c.shape()[0] != product.m || c.shape()[1] != product.n)
    return fail(Errc::invalid_argument, "the shapes of a matrix product do not fit: " + describe());
  product.alpha = options.alpha;
  product.beta = options.beta;
  product.a = a.raw();
  product.lda = a.shape()[1];
  product.b = b.raw();
  product.ldb = b.shape()[1];
  product.c = c.raw();
  product.ldc = c.shape()[1];
  return gemm(product);
}

Result<void> Stream::gemm(const Gemm& product) {
  GPUACTORS_LET(on, backend());
  GPUACTORS_TRY(check_gemm(product));
  if (state_->captured.native == handle_.native && !state_->has_multiplied)
    return fail(Errc::invalid_argument,
                "the first product of a context cannot be part of a graph: run the work once before you capture it");
  state_->has_multiplied = true;
  return on->gemm(product, handle_);
}

// -- graphs --------------------------------------------------------------------------------------

Stream::Capture::Capture(std::shared_ptr<detail::ContextState> state, StreamHandle handle)
  : state_(std::move(state)), handle_(handle) {
  // nop
}

Stream::Capture::~Capture() {
  if (state_ != nullptr)
    (void)state_->end_capture(handle_);
}

Result<Stream::Capture> Stream::begin_capture() {
  GPUACTORS_LET(on, backend_beside_capture("another capture"));
  if (state_->captured.native != nullptr)
    return fail(Errc::invalid_argument, "another stream of this context is being captured");
  GPUACTORS_TRY(on->begin_capture(handle_));
  state_->captured = handle_;
  state_->refused.reset();
  return Capture{state_, handle_};
}

Result<Graph> Stream::Capture::end(Result<void> outcome) {
  const auto state = std::exchange(state_, nullptr);
  auto captured = state->end_capture(handle_);
  // Somebody else is why the work failed.
  if (!captured && captured.error().code() == Errc::unavailable)
    return fail(std::move(captured).error());
  GPUACTORS_TRY(std::move(outcome));
  // The work may have gone on without what was refused: then a graph would lack it.
  if (state->refused)
    return fail(*state->refused);
  GPUACTORS_LET(graph, std::move(captured));
  if (graph->operations() == 0)
    return fail(Errc::invalid_argument, "nothing was queued on the stream while it was captured");
  return Graph{state->ground, std::move(graph)};
}

Result<void> Stream::launch(const Graph& graph) {
  GPUACTORS_LET(on, backend_beside_capture("a graph"));
  if (!graph)
    return fail(Errc::invalid_argument, "the graph is empty: capture one first");
  if (!graph.is_of(state_->ground))
    return fail(Errc::invalid_argument, "the graph was captured in another context");
  return on->launch(graph.captured_, handle_);
}

// -- order and completion ------------------------------------------------------------------------

Result<void> Stream::synchronize() {
  GPUACTORS_LET(on, backend_beside_capture("a wait"));
  GPUACTORS_TRY(on->synchronize(handle_));
  state_->has_waited();
  return {};
}

Result<void> Stream::notify(std::function<void(Result<void>)> callback) {
  GPUACTORS_LET(on, backend_beside_capture("a notification"));
  if (!callback)
    return fail(Errc::invalid_argument, "notify needs a callback");
  return on->notify(handle_, std::move(callback));
}

Result<NativeStream> Stream::native() {
  GPUACTORS_LET(on, backend());
  GPUACTORS_LET(current, on->make_current());
  state_->lent = true;
  return NativeStream{handle_.native, std::move(current)};
}

Result<void> Stream::wait(Stream& other) {
  GPUACTORS_LET(here, backend_beside_capture("a wait for another stream"));
  GPUACTORS_LET(there, other.backend_beside_capture("a wait by another stream"));
  // Its event may be used again as soon as the wait is queued.
  GPUACTORS_LET(mark, other.state_->take_mark());
  GPUACTORS_TRY(there->record(mark->event, other.handle_));
  return here->wait(handle_, mark->event);
}

Result<Mark> Stream::mark() {
  GPUACTORS_LET(on, backend_beside_capture("a mark"));
  GPUACTORS_LET(mark, state_->take_mark());
  GPUACTORS_TRY(on->record(mark->event, handle_));
  return Mark{std::move(mark)};
}

Result<void> Stream::wait(const Mark& mark) {
  GPUACTORS_LET(here, backend_beside_capture("a wait for a mark"));
  if (!mark)
    return fail(Errc::invalid_argument, "there is no mark to wait for: it is empty");
  const auto ground = mark.state_->ground.lock();
  // If the mark's context has ended, its work is done.
  return ground != nullptr ? here->wait(handle_, mark.state_->event) : Result<void>{};
}

} // namespace gpuactors
