// Work of one lease on a CUDA device.
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/cuda/backend.hpp>
#include <gpuactors/device/cuda/device.hpp>
#include <gpuactors/device/detail/patience.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
/// Most bytes that are fetched by way of pinned memory: of more, the second copy takes longer than what it saves.
constexpr std::size_t most_staged = std::size_t{1} << 20;

CUstream native(StreamHandle stream) {
  return static_cast<CUstream>(stream.native);
}

CUevent native(EventHandle event) {
  return static_cast<CUevent>(event.native);
}

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

} // namespace

// -- lifetime ------------------------------------------------------------------------------------

CudaBackend::CudaBackend(Shared shared, BackendOptions options)
  : shared_(std::move(shared)), options_(std::move(options)),
    partition_(shared_.primary, shared_.split, options_.share, shared_.sms), events_(partition_),
    pool_(shared_.primary), executables_(std::make_shared<Executables>(shared_.primary)) {
  // nop
}

CudaBackend::~CudaBackend() {
  const Current current{*shared_.primary};
  // Streams are gone, so work is done; callbacks may still be on their way.
  shared_.poller->drain(this);
  drain();
  executables_->end();
  for (auto* event : {product_done_, passed_, before_capture_}) {
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
  streams_.push_back(stream);
  return StreamHandle{stream};
}

void CudaBackend::destroy_stream(StreamHandle stream) noexcept {
  const Current current{*shared_.primary};
  (void)synchronize(stream);
  // Its products are done, and its handle may come again.
  if (product_stream_ == native(stream))
    product_stream_ = nullptr;
  const std::lock_guard guard{free_mutex_};
  std::erase(streams_, native(stream));
  partition_.destroy_stream(native(stream));
}

Result<void> CudaBackend::synchronize(StreamHandle stream) {
  const Current current{*shared_.primary};
  // What another thread launches meanwhile is not waited for.
  std::unordered_map<void*, RuntimeKernel> ran;
  {
    const std::lock_guard guard{launched_mutex_};
    if (auto known = launched_.extract(native(stream)); !known.empty())
      ran = std::move(known.mapped());
  }
  look_for_end(native(stream));
  auto done = check(driver().stream_synchronize(native(stream)), "cuStreamSynchronize", Errc::launch_failed);
  if (!done && !ran.empty()) {
    // They may run on.
    const std::lock_guard guard{launched_mutex_};
    launched_[native(stream)].merge(ran);
  }
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
  return shared_.poller->watch(this, events_, native(stream), std::move(callback));
}

// -- memory --------------------------------------------------------------------------------------

std::size_t CudaBackend::footprint(std::size_t bytes) const noexcept {
  return round_up(bytes, block_bytes);
}

Result<void*> CudaBackend::allocate(std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  return allocate_from_pool(bytes, native(stream));
}

Result<void*> CudaBackend::allocate_from_pool(std::size_t bytes, CUstream stream) {
  auto pointer = pool_.allocate(bytes, stream);
  if (pointer || pointer.error().code() != Errc::out_of_memory)
    return pointer;
  // What was freed may still be behind work of its stream, and what the pool keeps in pieces too small. Then decide.
  GPUACTORS_TRY(wait_for_frees());
  pool_.trim();
  return pool_.allocate(bytes, stream);
}

Result<void> CudaBackend::wait_for_frees() {
  std::vector<CUstream> all;
  {
    const std::lock_guard guard{free_mutex_};
    all = streams_;
    // Of a stream that is captured nothing can be waited for but what it had before.
    std::erase(all, captured_);
    if (service_ != nullptr)
      all.push_back(service_);
  }
  if (captured_ != nullptr)
    GPUACTORS_TRY(check(driver().event_synchronize(before_capture_), "cuEventSynchronize", Errc::launch_failed));
  // They end on this thread alone. One by one is enough: nothing new is started meanwhile.
  for (auto* stream : all)
    GPUACTORS_TRY(check(driver().stream_synchronize(stream), "cuStreamSynchronize", Errc::launch_failed));
  return {};
}

void CudaBackend::free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept {
  const Current current{*shared_.primary};
  const std::lock_guard guard{free_mutex_};
  if (readers.empty() && streams_.size() == 1 && streams_[0] == native(stream) && captured_ == nullptr) {
    pool_.free(pointer, native(stream));
    return;
  }
  // Without a stream nothing is left to free it behind: then it goes with the process.
  if (auto* behind = gather(readers); behind != nullptr)
    pool_.free(pointer, behind);
}

Result<CUstream> CudaBackend::service() {
  if (service_ == nullptr) {
    GPUACTORS_LET(made, partition_.make_stream());
    service_ = made;
  }
  return service_;
}

CUstream CudaBackend::gather(std::span<const EventHandle> readers) noexcept {
  // Not on a stream of the user's: it would wait there for all others.
  auto made = service();
  auto* const behind = made ? *made : streams_.empty() ? nullptr : streams_.front();
  if (behind == nullptr)
    return nullptr;
  // Where the driver cannot make it wait, this thread waits: what is freed too early, others overwrite.
  for (auto* busy : streams_) {
    if (busy == captured_) {
      // A mark there would be part of the graph.
      if (driver().stream_wait_event(behind, before_capture_, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)
        (void)driver().event_synchronize(before_capture_);
    } else if (busy != behind
               && (driver().event_record(passed_, busy) != CUDA_SUCCESS
                   || driver().stream_wait_event(behind, passed_, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)) {
      (void)driver().stream_synchronize(busy);
    }
  }
  for (auto reader : readers)
    if (driver().stream_wait_event(behind, native(reader), CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)
      (void)driver().event_synchronize(native(reader));
  return behind;
}

struct CudaBackend::Going {
  CudaBackend& backend;
  std::shared_ptr<SharedMemory> memory;

  Going(CudaBackend& home, std::shared_ptr<SharedMemory> held) : backend(home), memory(std::move(held)) {
    ++backend.letting_go_;
  }
  Going(const Going&) = delete;
  Going& operator=(const Going&) = delete;

  ~Going() {
    const auto footprint = memory->footprint();
    memory.reset();
    backend.detach(footprint);
    // The last that it does with the backend, whose end waits for it.
    --backend.letting_go_;
  }
};

Result<void> CudaBackend::attach(std::uint64_t footprint) {
  GPUACTORS_TRY(shared_.primary->alive());
  const std::lock_guard guard{keep_mutex_};
  shared_bytes_ += footprint;
  keep_beside();
  return {};
}

void CudaBackend::detach(std::uint64_t footprint) noexcept {
  const std::lock_guard guard{keep_mutex_};
  shared_bytes_ -= footprint;
  keep_beside();
}

void CudaBackend::keep_beside() noexcept {
  const Current current{*shared_.primary};
  pool_.keep(options_.memory_bytes - std::min(options_.memory_bytes, shared_bytes_));
}

void CudaBackend::let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept {
  const Current current{*shared_.primary};
  // Unmapping is in no stream's order: it happens when the service stream is there, on the thread of the closer, which
  // is the only one to have it by then.
  auto slot = std::make_shared<std::shared_ptr<Going>>(std::make_shared<Going>(*this, std::move(memory)));
  auto gone = [closer = shared_.closer, slot](const Result<void>&) { closer->add(std::move(*slot)); };
  const std::lock_guard guard{free_mutex_};
  auto* const behind = gather(readers);
  if (behind != nullptr && shared_.poller->watch(&letting_go_, events_, behind, gone))
    return;
  if (behind != nullptr)
    (void)driver().stream_synchronize(behind);
  gone({});
}

void CudaBackend::settle() noexcept {
  if (letting_go_ > 0)
    drain();
}

void CudaBackend::drain() noexcept {
  shared_.poller->drain(&letting_go_);
  shared_.closer->drain();
}

Result<void> CudaBackend::copy(void* target, const void* source, std::size_t bytes, CopyKind, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  // Addresses are unified: the driver sees the direction.
  return check(driver().memcpy_async(address(target), address(source), bytes, native(stream)), "cuMemcpyAsync",
               Errc::copy_failed, fmt::format("{} B", bytes));
}

Result<void> CudaBackend::fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) {
  // In a copy to ordinary memory the driver itself waits for the stream, and the thread sleeps there, however short the
  // wait is.
  auto staged = bytes <= most_staged ? host_memory(bytes) : Result<std::shared_ptr<void>>{nullptr};
  if (!staged || *staged == nullptr)
    return Backend::fetch(host, source, bytes, stream);
  GPUACTORS_TRY(copy(staged->get(), source, bytes, CopyKind::device_to_host, stream));
  GPUACTORS_TRY(synchronize(stream));
  std::memcpy(host, staged->get(), bytes);
  return {};
}

Result<void> CudaBackend::copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                                    StreamHandle stream) {
  auto* const there = dynamic_cast<CudaDevice*>(&other);
  if (there == nullptr)
    return Backend::copy_from(other, target, source, bytes, stream);
  GPUACTORS_TRY(shared_.primary->alive());
  GPUACTORS_LET(from, there->primary());
  GPUACTORS_TRY(from->alive());
  from->show_to(*shared_.primary, source);
  const Current current{*shared_.primary};
  const auto copied = driver().memcpy_peer_async(address(target), shared_.primary->context(), address(source),
                                                 from->context(), bytes, native(stream));
  // An error of the other device must not cost this one.
  if (copied != CUDA_SUCCESS)
    GPUACTORS_TRY(from->probe());
  return check(copied, "cuMemcpyPeerAsync", Errc::copy_failed,
               fmt::format("{} B of device {}", bytes, from->ordinal()));
}

Result<void> CudaBackend::fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  return check(driver().memset_d8_async(address(target), value, bytes, native(stream)), "cuMemsetD8Async",
               Errc::copy_failed, fmt::format("{} B", bytes));
}

// -- compute -------------------------------------------------------------------------------------

Result<void> CudaBackend::launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t,
                                 StreamHandle stream) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  GPUACTORS_LET(handle, shared_.images.find(kernel, shared_.primary->ordinal()));
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
  if (shared_bytes > 0) {
    const auto allowed = allowed_shared_.find(handle);
    if (allowed == allowed_shared_.end() || shared_bytes > allowed->second) {
      GPUACTORS_LET(most, allow_shared(handle, kernel.name, shared_bytes));
      allowed_shared_[handle] = most;
    }
  }
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

Result<std::shared_ptr<void>> CudaBackend::make_current() {
  GPUACTORS_TRY(shared_.primary->alive());
  return std::make_shared<Current>(*shared_.primary);
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
  return shared_.runtime_kernels.find(source, 10 * major + minor, shared_.primary->ordinal());
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
  // Each time, for its handle may have been another kernel's.
  if (shared_bytes > 0)
    GPUACTORS_TRY(allow_shared(static_cast<CUkernel>(kernel.loaded().native), kernel.name(), shared_bytes));
  keep(native(stream), kernel);
  return check(
      driver().launch_kernel(static_cast<CUfunction>(kernel.loaded().native), grid[0], grid[1], grid[2], block[0],
                             block[1], block[2], shared_bytes, native(stream), addresses.data(), nullptr),
      "cuLaunchKernel", Errc::launch_failed,
      fmt::format("kernel {}, grid [{}], blocks [{}]", kernel.name(), fmt::join(grid, ", "), fmt::join(block, ", ")));
}

void CudaBackend::keep(CUstream stream, const RuntimeKernel& kernel) {
  if (stream == captured_) {
    captured_needs_.kernels.push_back(kernel);
    return;
  }
  const std::lock_guard guard{launched_mutex_};
  launched_[stream].emplace(kernel.loaded().native, kernel);
}

Result<unsigned> CudaBackend::allow_shared(CUkernel kernel, std::string_view name, unsigned bytes) {
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
  return left;
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
