// Work of one lease on a CUDA device.
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/cuda/backend.hpp>
#include <gpuactors/device/cuda/native.hpp>
#include <gpuactors/device/detail/patience.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors::cuda {

namespace {

constexpr unsigned threads_per_block = 256;
/// Enough blocks to fill every SM a few times; the kernel's loop does the rest.
constexpr std::uint64_t blocks_per_sm = 32;
/// What cuBLAS wants on Hopper. A small lease gives it a small part.
constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr std::size_t workspace_part = 8;
/// With less, some products fail for want of memory.
constexpr std::size_t least_workspace = std::size_t{16} << 10;

} // namespace

// -- lifetime ------------------------------------------------------------------------------------

CudaBackend::CudaBackend(Shared shared, BackendOptions options)
  : shared_(std::move(shared)), options_(std::move(options)),
    partition_(shared_.primary, shared_.split, options_, shared_.sms), events_(partition_), pool_(shared_.primary),
    executables_(std::make_shared<Executables>(shared_.primary)) {
  // nop
}

CudaBackend::~CudaBackend() {
  const Current current{*shared_.primary};
  if (options_.quota != nullptr)
    options_.quota->on_beside(nullptr);
  shared_.pools->remove(*this);
  // Streams are gone, so work is done; callbacks may still be on their way.
  shared_.poller->drain(this);
  drain();
  executables_->end();
  for (auto* event : {product_done_, passed_, freed_, before_capture_}) {
    if (event != nullptr)
      partition_.destroy_event(event);
  }
  events_.clear();
  if (workspace_ != nullptr) {
    pool_.free(workspace_, service_);
    if (options_.quota != nullptr)
      options_.quota->release(workspace_bytes_);
  }
  if (service_ != nullptr) {
    (void)driver().stream_synchronize(service_);
    partition_.destroy_stream(service_);
  }
  pool_.close();
  // Last: once a green context is gone its streams cannot even be destroyed.
  partition_.close();
}

Result<void> CudaBackend::open() {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  // Here and not at a kernel's first launch, which may be beside work of others.
  shared_.images.load_for_primary(shared_.primary->ordinal());
  GPUACTORS_TRY(partition_.open(shared_.images));
  GPUACTORS_TRY(pool_.open(options_.memory_bytes));
  GPUACTORS_LET(passed, partition_.make_event());
  passed_ = passed;
  shared_.pools->add(*this);
  if (options_.quota != nullptr)
    options_.quota->on_beside([this](std::uint64_t bytes) {
      (void)see_frees();
      const std::lock_guard guard{keep_mutex_};
      beside_bytes_ = bytes;
      keep_beside();
    });
  return {};
}

ContextGrant CudaBackend::granted() const {
  ContextGrant grant;
  grant.share = options_.share;
  grant.memory_bytes = options_.memory_bytes;
  partition_.describe(grant);
  return grant;
}

// -- streams and events --------------------------------------------------------------------------

Result<StreamHandle> CudaBackend::make_stream() {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  GPUACTORS_LET(stream, partition_.make_stream());
  // So that a product on the new stream waits for nothing that the other one gets from now on. If it fails, it is tried
  // again at that product.
  if (product_stream_ != nullptr && !product_marked_)
    (void)mark_products();
  const std::lock_guard guard{free_mutex_};
  if (auto followed = follow_frees(stream); !followed) {
    partition_.destroy_stream(stream);
    return fail(followed.error());
  }
  streams_.push_back(stream);
  return StreamHandle{stream};
}

Result<void> CudaBackend::follow_frees(CUstream made) {
  const auto follow = [&](CUevent event) -> Result<void> {
    if (driver().stream_wait_event(made, event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS)
      return {};
    return check(driver().event_synchronize(event), "cuEventSynchronize", Errc::launch_failed);
  };
  if (freed_on_ == nullptr)
    return freed_ != nullptr ? follow(freed_) : Result<void>{};
  // A mark there would be part of the graph.
  if (freed_on_ == captured_)
    return follow(before_capture_);
  if (freed_ == nullptr) {
    GPUACTORS_LET(mark, partition_.make_event());
    freed_ = mark;
  }
  auto* const on = std::exchange(freed_on_, nullptr);
  if (driver().event_record(freed_, on) == CUDA_SUCCESS)
    return follow(freed_);
  return check(driver().stream_synchronize(on), "cuStreamSynchronize", Errc::launch_failed);
}

void CudaBackend::destroy_stream(StreamHandle stream) noexcept {
  const Current current{*shared_.primary};
  (void)synchronize(stream);
  // Its products are done, and its handle may come again.
  if (product_stream_ == native(stream))
    product_stream_ = nullptr;
  const std::lock_guard guard{free_mutex_};
  std::erase(streams_, native(stream));
  if (freed_on_ == native(stream))
    freed_on_ = nullptr;
  partition_.destroy_stream(native(stream));
}

Result<void> CudaBackend::synchronize(StreamHandle stream) {
  const Current current{*shared_.primary};
  // What another thread launches meanwhile is not waited for.
  auto ran = take_launched(native(stream));
  look_for_end(native(stream));
  auto done = check(driver().stream_synchronize(native(stream)), "cuStreamSynchronize", Errc::launch_failed);
  if (!done)
    keep(native(stream), std::move(ran));
  return done;
}

void CudaBackend::look_for_end(CUstream stream) {
  const auto start = Clock::now();
  while (driver().stream_query(stream) == CUDA_ERROR_NOT_READY) {
    const auto pause = detail::pause_after(Clock::now() - start);
    if (!pause)
      return;
    if (*pause > Duration::zero())
      detail::sleep_precisely(*pause);
  }
}

Result<EventHandle> CudaBackend::make_event() {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  GPUACTORS_LET(event, partition_.make_event());
  return EventHandle{event};
}

void CudaBackend::destroy_event(EventHandle event) noexcept {
  const Current current{*shared_.primary};
  partition_.destroy_event(native(event));
}

Result<void> CudaBackend::record(EventHandle event, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  const std::lock_guard guard{free_mutex_};
  if (native(stream) != captured_)
    return check(driver().event_record(native(event), native(stream)), "cuEventRecord");
  // Who lets go of memory meanwhile: it may be freed behind what the stream had before. A mark there would be part of
  // the graph.
  GPUACTORS_TRY(
      check(driver().stream_wait_event(service_, before_capture_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent"));
  return check(driver().event_record(native(event), service_), "cuEventRecord");
}

Result<void> CudaBackend::wait(StreamHandle stream, EventHandle event) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  return check(driver().stream_wait_event(native(stream), native(event), CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
}

Result<bool> CudaBackend::query(EventHandle event) {
  const Current current{*shared_.primary};
  const auto status = driver().event_query(native(event));
  if (status == CUDA_ERROR_NOT_READY)
    return false;
  GPUACTORS_TRY(check(status, "cuEventQuery", Errc::launch_failed));
  return true;
}

Result<void> CudaBackend::notify(StreamHandle stream, std::function<void(Result<void>)> callback) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  auto* const on = native(stream);
  auto ran = take_launched(on);
  if (ran.empty())
    return shared_.poller->watch(this, events_, on, std::move(callback));
  // The callback is copied, and what has run must go when it is called.
  auto held = std::make_shared<Launched>(std::move(ran));
  auto watched =
      shared_.poller->watch(this, events_, on, [this, on, held, callback = std::move(callback)](Result<void> result) {
        if (result)
          held->clear();
        else
          keep(on, std::move(*held));
        callback(std::move(result));
      });
  if (!watched)
    keep(on, std::move(*held));
  return watched;
}

// -- compute -------------------------------------------------------------------------------------

Result<void> CudaBackend::launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t,
                                 StreamHandle stream) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  GPUACTORS_LET(handle, find(kernel));
  auto n = extent.count;
  LaunchShape shape;
  if (extent.shape) {
    shape = *extent.shape;
  } else {
    const auto sms = static_cast<std::uint64_t>(std::max(1, partition_.sms()));
    shape.grid[0] = static_cast<unsigned>(std::min((n - 1) / threads_per_block + 1, sms * blocks_per_sm));
    shape.block[0] = threads_per_block;
  }
  const auto& [grid, block, shared_bytes] = shape;
  if (shared_bytes > 0)
    GPUACTORS_TRY(allow_shared(handle, 0, kernel.name, shared_bytes));
  // The driver copies both before it returns, the pack in the size that the kernel declares.
  void* arguments[] = {&n, const_cast<void*>(pack)};
  const auto started = driver().launch_kernel(reinterpret_cast<CUfunction>(handle), grid[0], grid[1], grid[2], block[0],
                                              block[1], block[2], shared_bytes, native(stream), arguments, nullptr);
  if (started == CUDA_SUCCESS) [[likely]]
    return {};
  return check(started, "cuLaunchKernel", Errc::launch_failed,
               fmt::format("kernel {} over {}, grid [{}], blocks [{}], {} B of shared memory", kernel.name, n,
                           fmt::join(grid, ", "), fmt::join(block, ", "), shared_bytes));
}

Result<CUkernel> CudaBackend::find(const KernelInfo& kernel) {
  if (kernel.image != nullptr)
    if (const auto known = known_kernels_.find({kernel.image->begin, kernel.name}); known != known_kernels_.end())
      return known->second;
  GPUACTORS_LET(handle, settled(shared_.images.find(kernel, shared_.primary->ordinal())));
  known_kernels_.emplace(std::pair{kernel.image->begin, kernel.name}, handle);
  return handle;
}

Result<std::shared_ptr<void>> CudaBackend::make_current() {
  GPUACTORS_TRY(shared_.primary->alive());
  // What others call meanwhile is theirs to be careful with.
  return std::make_shared<ContextScope>(*shared_.primary, true);
}

Result<RuntimeKernel> CudaBackend::compile(const KernelSource& source) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  int major = 0;
  int minor = 0;
  const auto device = shared_.primary->device();
  GPUACTORS_TRY(check(driver().device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                      "cuDeviceGetAttribute"));
  GPUACTORS_TRY(check(driver().device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                      "cuDeviceGetAttribute"));
  return settled(shared_.runtime_kernels.find(source, 10 * major + minor, shared_.primary->ordinal()));
}

Result<void> CudaBackend::launch(const RuntimeKernel& kernel, const LaunchShape& shape,
                                 std::span<const KernelArgument> arguments, StreamHandle stream) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  std::vector<void*> addresses;
  addresses.reserve(arguments.size());
  for (const auto& argument : arguments)
    addresses.push_back(const_cast<void*>(argument.data()));
  const auto& [grid, block, shared_bytes] = shape;
  const auto& loaded = kernel.loaded();
  if (shared_bytes > 0)
    GPUACTORS_TRY(allow_shared(static_cast<CUkernel>(loaded.native), loaded.number, loaded.name, shared_bytes));
  keep(native(stream), kernel);
  const auto started =
      driver().launch_kernel(static_cast<CUfunction>(loaded.native), grid[0], grid[1], grid[2], block[0], block[1],
                             block[2], shared_bytes, native(stream), addresses.data(), nullptr);
  if (started == CUDA_SUCCESS) [[likely]]
    return {};
  return check(started, "cuLaunchKernel", Errc::launch_failed,
               fmt::format("kernel {}, grid [{}], blocks [{}], {} B of shared memory", loaded.name,
                           fmt::join(grid, ", "), fmt::join(block, ", "), shared_bytes));
}

void CudaBackend::keep(CUstream stream, const RuntimeKernel& kernel) {
  if (stream == captured_) {
    captured_needs_.kernels.try_emplace(kernel.loaded().native, kernel);
    return;
  }
  const std::lock_guard guard{launched_mutex_};
  launched_[stream].try_emplace(kernel.loaded().native, kernel);
}

void CudaBackend::keep(CUstream stream, const GraphNeeds& needs) {
  if (needs.kernels.empty())
    return;
  const std::lock_guard guard{launched_mutex_};
  auto& launched = launched_[stream];
  for (const auto& [native, kernel] : needs.kernels)
    launched.try_emplace(native, kernel);
}

void CudaBackend::keep(CUstream stream, Launched kernels) {
  if (kernels.empty())
    return;
  const std::lock_guard guard{launched_mutex_};
  launched_[stream].merge(kernels);
}

CudaBackend::Launched CudaBackend::take_launched(CUstream stream) {
  const std::lock_guard guard{launched_mutex_};
  auto known = launched_.extract(stream);
  return known.empty() ? Launched{} : std::move(known.mapped());
}

Result<void> CudaBackend::allow_shared(CUkernel kernel, std::uint64_t number, std::string_view name, unsigned bytes) {
  auto& allowed = allowed_shared_[kernel];
  if (allowed.number == number && bytes <= allowed.bytes)
    return {};
  const auto device = shared_.primary->device();
  int most = 0;
  int own = 0;
  GPUACTORS_TRY(
      check(driver().device_get_attribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device),
            "cuDeviceGetAttribute"));
  GPUACTORS_TRY(check(driver().kernel_get_attribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, device),
                      "cuKernelGetAttribute"));
  const auto left = static_cast<unsigned>(std::max(0, most - own));
  if (bytes > left)
    return fail(Errc::invalid_argument,
                fmt::format("kernel {} was started with {} B of dynamic shared memory for each block; beside the {} B "
                            "that it declares itself the device has {} B",
                            name, bytes, own, left));
  // All that there is, not `bytes`: another actor may launch the same kernel with more at this moment.
  GPUACTORS_TRY(
      check(driver().kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - own, kernel, device),
            "cuKernelSetAttribute"));
  allowed = {number, left};
  return {};
}

Result<void> CudaBackend::gemm(const Gemm& product, StreamHandle stream) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  // A graph follows other products when it is launched.
  if (native(stream) == captured_) {
    if (captured_handle_ == nullptr)
      return fail(Errc::invalid_argument, "the first product of a backend cannot be part of a graph");
    captured_needs_.workspace = true;
    return shared_.products->start(product, product_place(stream), captured_handle_.get());
  }
  GPUACTORS_TRY(prepare_products(native(stream)));
  GPUACTORS_TRY(follow_products(native(stream)));
  // While another stream is captured, its handle: no other one may be made now.
  auto outcome = captured_handle_ != nullptr
                     ? shared_.products->start(product, product_place(stream), captured_handle_.get())
                     : shared_.products->start(product, product_place(stream));
  product_stream_ = native(stream);
  product_marked_ = false;
  // Only this thread makes and ends streams. A mark costs time on the device, and may keep the next product from
  // starting early; a later one would also be behind what else this stream gets, which other streams must not wait for.
  if (outcome && streams_.size() == 1)
    return outcome;
  // cuBLAS says no more than that it failed; whether the context is lost the driver knows. Else a mark that fails is
  // tried again when another stream needs it.
  auto marked = mark_products();
  return shared_.primary->lost() ? marked : outcome;
}

Products::Place CudaBackend::product_place(StreamHandle stream) const {
  return {native(stream), workspace_, workspace_bytes_, partition_.is_part() ? partition_.sms() : 0};
}

Result<void> CudaBackend::follow_products(CUstream stream) {
  if (product_stream_ == nullptr || product_stream_ == stream)
    return {};
  if (product_marked_ || mark_products())
    return check(driver().stream_wait_event(stream, product_done_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
  return check(driver().stream_synchronize(product_stream_), "cuStreamSynchronize", Errc::launch_failed);
}

Result<void> CudaBackend::mark_products() {
  auto recorded = check(driver().event_record(product_done_, product_stream_), "cuEventRecord");
  product_marked_ = recorded.has_value();
  return recorded;
}

Result<void> CudaBackend::prepare_products(CUstream stream) {
  if (workspace_ != nullptr)
    return {};
  if (product_done_ == nullptr) {
    GPUACTORS_LET(done, partition_.make_event());
    product_done_ = done;
  }
  // Where it is freed in the end.
  GPUACTORS_TRY(locked_service());
  GPUACTORS_TRY(allocate_workspace(stream));
  // Products on other streams wait for the allocation as for a product on this one.
  product_stream_ = stream;
  product_marked_ = false;
  return {};
}

Result<CUstream> CudaBackend::locked_service() {
  const std::lock_guard guard{free_mutex_};
  return service();
}

Result<void> CudaBackend::allocate_workspace(CUstream stream) {
  const auto bytes = round_up(
      std::clamp<std::size_t>(options_.memory_bytes / workspace_part, least_workspace, most_workspace), block_bytes);
  if (options_.quota != nullptr && !options_.quota->reserve(bytes)) {
    settle();
    GPUACTORS_TRY(options_.quota->reserve(bytes));
  }
  auto workspace = allocate_from_pool(bytes, stream);
  if (!workspace) {
    if (options_.quota != nullptr)
      options_.quota->release(bytes);
    return fail(workspace.error());
  }
  workspace_ = *workspace;
  workspace_bytes_ = bytes;
  return {};
}

} // namespace gpuactors::cuda
