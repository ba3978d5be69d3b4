// libcuda.so.1 for tests: the functions that our table asks for, in terms of a host device.
//
// It is strict where the real driver is: every call needs a current context where CUDA wants one, handles are destroyed
// once, and what is left at the end is counted. It is no proof of how a GPU behaves.
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/cuda/driver.hpp>
#include <gpuactors/device/host/device.hpp>

#include <device/fake_cuda/code.hpp>
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/events.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>
#include <device/fake_cuda/host_side.hpp>
#include <device/fake_cuda/looks.hpp>
#include <device/fake_cuda/peers.hpp>
#include <device/fake_cuda/pools.hpp>
#include <device/fake_cuda/shared_memory.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace gpuactors::fake {

std::atomic<int> live{0};

namespace {

Looks& looks() {
  static auto* one = new Looks;
  return *one;
}

/// The primary contexts, by their devices.
std::array<int, 64> context_marks;
/// How often each is retained: threads may open several at once.
std::array<std::atomic<int>, 64> holders_of_device{};

bool is_primary(CUcontext context) {
  const auto* mark = reinterpret_cast<const int*>(context);
  return std::less_equal<>{}(context_marks.begin(), mark) && std::less<>{}(mark, context_marks.end());
}
thread_local std::vector<CUcontext> current;
/// Of a device by its number.
constexpr const char* uuid_format = "GPU-{:02x}112233-4455-6677-8899-aabbccddeeff";

/// Whether an event must be recorded on streams of its own context. cuda.h says so, and does not say whether a green
/// context counts as one of its own.
std::atomic<int> events_stay_home{CUDA_SUCCESS};
std::atomic<int> records{0};
/// Looks at events that were not ready, and whether each takes 0.2 ms.
std::atomic<std::uint64_t> vain_queries{0};
std::atomic<bool> slow_queries{false};
std::atomic<int> waiting_copies{0};

CUresult sticky_error() {
  return static_cast<CUresult>(machine().sticky.load());
}

CUresult code_of(const Result<void>& result) {
  if (const auto sticky = sticky_error(); sticky != CUDA_SUCCESS)
    return sticky;
  return result ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

template <class T, class Make>
CUresult make(T* out, const char* api, Make&& make_handle) {
  need_context(api);
  if (const auto sticky = sticky_error(); sticky != CUDA_SUCCESS)
    return sticky;
  auto made = make_handle();
  *out = reinterpret_cast<T>(made->native);
  ++live;
  return CUDA_SUCCESS;
}

// -- the driver's functions ----------------------------------------------------------------------

/// What the driver was told of hardware queues when it was started.
std::string& queues() {
  static std::string told;
  return told;
}

CUresult init(unsigned) {
  const char* told = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  queues() = told != nullptr ? told : "";
  return std::getenv("FAKE_CUDA_INIT") != nullptr ? static_cast<CUresult>(std::atoi(std::getenv("FAKE_CUDA_INIT")))
                                                  : CUDA_SUCCESS;
}

CUresult driver_get_version(int* version) {
  *version = std::getenv("FAKE_CUDA_VERSION") != nullptr ? std::atoi(std::getenv("FAKE_CUDA_VERSION")) : 13000;
  return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}

/// Numbers of the devices that this process is shown: of FAKE_CUDA_DEVICES, 1 when left out, those that
/// CUDA_VISIBLE_DEVICES names by number or UUID, up to the first that there is none of.
std::vector<int> visible_devices() {
  const char* number = std::getenv("FAKE_CUDA_DEVICES");
  const int count = number != nullptr ? std::atoi(number) : 1;
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> result;
  for (int i = 0; wanted == nullptr && i < count; ++i)
    result.push_back(i);
  for (std::istringstream words{wanted != nullptr ? wanted : ""}; words;) {
    std::string word;
    std::getline(words, word, ',');
    int i = 0;
    while (i < count && word != std::to_string(i) && word != fmt::format(uuid_format, i))
      ++i;
    if (i == count)
      break;
    result.push_back(i);
  }
  return result;
}

CUresult device_get_count(int* count) {
  *count = static_cast<int>(visible_devices().size());
  return *count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

/// A CUdevice is the number on the machine here, an index in what is shown at the real driver.
CUresult device_get(CUdevice* device, int ordinal) {
  const auto visible = visible_devices();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible.size())
    return CUDA_ERROR_INVALID_DEVICE;
  *device = visible[static_cast<std::size_t>(ordinal)];
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice) {
  std::strncpy(name, "NVIDIA Fake", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid* uuid, CUdevice device) {
  uuid->bytes[0] = static_cast<char>(device);
  for (std::size_t i = 1; i < sizeof(uuid->bytes); ++i)
    uuid->bytes[i] = static_cast<char>(i * 17);
  return CUDA_SUCCESS;
}

CUresult device_total_mem(std::size_t* bytes, CUdevice) {
  *bytes = memory_bytes;
  return CUDA_SUCCESS;
}

bool is_prohibited() {
  return std::getenv("FAKE_CUDA_PROHIBITED") != nullptr;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE ? (is_prohibited() ? CU_COMPUTEMODE_PROHIBITED : 0)
           : attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED  ? (std::getenv("FAKE_CUDA_MPS") != nullptr ? 1 : 0)
           : attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
                   || attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
               ? (std::getenv("FAKE_CUDA_UNSHARED") == nullptr ? 1 : 0)
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? most_shared_bytes
                                                                                : static_cast<int>(sm_count);
  return CUDA_SUCCESS;
}

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
  need_relaxed("cuDevicePrimaryCtxRetain");
  if (is_prohibited())
    return CUDA_ERROR_UNKNOWN;
  *context = reinterpret_cast<CUcontext>(&context_marks.at(static_cast<std::size_t>(device)));
  ++holders_of_device.at(static_cast<std::size_t>(device));
  ++live;
  return CUDA_SUCCESS;
}

CUresult primary_ctx_release(CUdevice device) {
  // It ends with the last, and with it the code that it has.
  if (--holders_of_device.at(static_cast<std::size_t>(device)) == 0)
    forget_code_of_context(&context_marks.at(static_cast<std::size_t>(device)));
  --live;
  return CUDA_SUCCESS;
}

CUresult primary_ctx_get_state(CUdevice device, unsigned* flags, int* active) {
  *flags = CU_CTX_SCHED_YIELD | CU_CTX_MAP_HOST;
  *active = holders_of_device.at(static_cast<std::size_t>(device)) > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult primary_ctx_set_flags(CUdevice device, unsigned flags) {
  if (holders_of_device.at(static_cast<std::size_t>(device)) > 0)
    misuse("the flags of a context that somebody has were changed");
  if (flags != (CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST))
    misuse("threads would keep a processor busy while they wait, or another flag was lost");
  return CUDA_SUCCESS;
}

CUresult ctx_get_current(CUcontext* context) {
  *context = current.empty() ? nullptr : current.back();
  return CUDA_SUCCESS;
}

CUresult ctx_push_current(CUcontext context) {
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult ctx_pop_current(CUcontext* context) {
  if (current.empty())
    misuse("a context was popped that was not pushed");
  *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

CUresult mem_get_info(std::size_t* free, std::size_t* total) {
  need_context("cuMemGetInfo");
  *total = memory_bytes;
  *free = memory_bytes - std::min(memory_bytes, reserved_bytes());
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* stream, unsigned flags) {
  if (flags != CU_STREAM_NON_BLOCKING)
    misuse("a stream that waits for the NULL stream");
  if (const auto result = planned("cuStreamCreate"); result != CUDA_SUCCESS)
    return result;
  const auto result = make(stream, "cuStreamCreate", [] { return machine().backend->make_stream(); });
  if (result == CUDA_SUCCESS) {
    remember_context_of_stream(*stream, current_context());
    remember_device_of_stream(*stream, current_device());
  }
  return result;
}

CUresult stream_destroy(CUstream stream) {
  need_no_capture(stream, "cuStreamDestroy");
  (void)looks().settle(stream);
  forget_stream(stream);
  forget_events_of(stream);
  pass_frees(stream);
  forget_code_of_stream(stream);
  forget_host_functions(stream);
  machine().backend->destroy_stream(handle(stream));
  --live;
  return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream) {
  need_no_capture(stream, "cuStreamSynchronize");
  if (const auto result = planned("cuStreamSynchronize"); result != CUDA_SUCCESS)
    return result;
  pass_frees(stream);
  auto done = machine().backend->synchronize(handle(stream));
  const auto told = looks().settle(stream);
  return code_of(done ? told : done);
}

/// A host device leaves its work for a moment to who waits for it, unless it is to tell when that is done. The real one
/// goes on by itself.
void let_go_on(CUstream stream) {
  const auto told = looks().add(stream);
  (void)machine().backend->notify(handle(stream), [told](Result<void> result) {
    told->result = std::move(result);
    told->done = true;
  });
}

CUresult stream_query(CUstream stream) {
  need_context("cuStreamQuery");
  need_relaxed("cuStreamQuery");
  need_no_capture(stream, "cuStreamQuery");
  if (const auto sticky = sticky_error(); sticky != CUDA_SUCCESS)
    return sticky;
  // Memory that was freed before may still count as in use: cuda.h names waits only, not looks (cuMemPoolTrimTo).
  if (const auto told = looks().of(stream))
    return told->done ? code_of(told->result) : CUDA_ERROR_NOT_READY;
  const auto event = *machine().backend->make_event();
  (void)machine().backend->record(event, handle(stream));
  const bool done = *machine().backend->query(event);
  machine().backend->destroy_event(event);
  if (done)
    return CUDA_SUCCESS;
  let_go_on(stream);
  return CUDA_ERROR_NOT_READY;
}

CUresult stream_wait_event(CUstream stream, CUevent event, unsigned) {
  need_no_capture(stream, "cuStreamWaitEvent");
  note_more(stream);
  if (const auto result = planned("cuStreamWaitEvent"); result != CUDA_SUCCESS)
    return result;
  return code_of(machine().backend->wait(handle(stream), {event}));
}

CUresult event_create(CUevent* event, unsigned) {
  const auto result = make(event, "cuEventCreate", [] { return machine().backend->make_event(); });
  if (result == CUDA_SUCCESS) {
    const std::lock_guard guard{events().mutex};
    events().all[*event] = {current_green(), nullptr, {}};
  }
  return result;
}

CUresult event_destroy(CUevent event) {
  {
    const std::lock_guard guard{events().mutex};
    events().all.erase(event);
  }
  machine().backend->destroy_event({event});
  --live;
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) {
  need_context("cuEventRecord");
  need_own_stream(stream, "cuEventRecord");
  need_no_capture(stream, "cuEventRecord");
  if (const auto result = planned("cuEventRecord"); result != CUDA_SUCCESS)
    return result;
  const auto* const home = green_of(stream);
  {
    const std::lock_guard guard{events().mutex};
    auto& recorded = events().all.at(event);
    if (events_stay_home != CUDA_SUCCESS && recorded.home != home)
      return static_cast<CUresult>(events_stay_home.load());
    recorded.recorded_on = stream;
    recorded.recorded_by = std::this_thread::get_id();
  }
  ++records;
  note_more(stream);
  return code_of(machine().backend->record({event}, handle(stream)));
}

CUresult event_query(CUevent event) {
  need_relaxed("cuEventQuery");
  if (const auto sticky = sticky_error(); sticky != CUDA_SUCCESS)
    return sticky;
  if (*machine().backend->query({event}))
    return CUDA_SUCCESS;
  ++vain_queries;
  if (auto* const on = own_stream_of(event); on != nullptr && looks().of(on) == nullptr)
    let_go_on(on);
  for (const auto end = Clock::now() + std::chrono::microseconds{200}; slow_queries && Clock::now() < end;)
    std::this_thread::yield();
  return CUDA_ERROR_NOT_READY;
}

CUresult event_synchronize(CUevent event) {
  need_context("cuEventSynchronize");
  auto result = event_query(event);
  while (result == CUDA_ERROR_NOT_READY)
    result = event_query(event);
  // With what was freed behind the mark, too, which the real driver need not see.
  if (auto* const on = stream_of(event); result == CUDA_SUCCESS && on != nullptr)
    pass_frees(on);
  return result;
}

CUresult launch_host_func(CUstream stream, CUhostFn function, void* data) {
  need_no_capture(stream, "cuLaunchHostFunc");
  note_more(stream);
  if (const auto result = planned("cuLaunchHostFunc"); result != CUDA_SUCCESS)
    return result;
  note_host_function(stream);
  if (const auto held = hold_host_function(function, data)) {
    // What is behind it on the stream waits for it.
    return code_of(
        machine().backend->launch({"host function", &await_held, nullptr}, {}, &held, sizeof(held), handle(stream)));
  }
  return code_of(machine().backend->notify(handle(stream), [function, data](Result<void>) {
    // After a context error the real driver calls nobody.
    if (sticky_error() != CUDA_SUCCESS)
      return;
    call_host_function(function, data);
  }));
}

/// Whether it is memory of a device. Ends the process if that has not so many bytes there.
bool is_device_memory(CUdeviceptr memory, std::size_t bytes, const char* api) {
  const auto left = std::max(left_of_pool(memory), left_of_shared(memory));
  if (left > 0 && bytes > left)
    misuse(fmt::format("{} of {} bytes where {} are allocated", api, bytes, left));
  return left > 0;
}

/// A copy from the device to ordinary memory is over when the driver returns.
bool waits_in_copy(CUdeviceptr target, CUdeviceptr source, std::size_t bytes) {
  const auto from_device = is_device_memory(source, bytes, "cuMemcpyAsync");
  const auto to_device = is_device_memory(target, bytes, "cuMemcpyAsync");
  return from_device && !to_device && !is_pinned(reinterpret_cast<const void*>(target)) && !is_capturing();
}

CUresult memcpy_async(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  need_context("cuMemcpyAsync");
  const bool waits = waits_in_copy(target, source, bytes);
  note_work(stream);
  auto done = machine().backend->copy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes,
                                      CopyKind::device_to_device, handle(stream));
  if (done && waits) {
    ++waiting_copies;
    done = machine().backend->synchronize(handle(stream));
  }
  return code_of(done);
}

CUresult memset_d8_async(CUdeviceptr target, unsigned char value, std::size_t bytes, CUstream stream) {
  need_context("cuMemsetD8Async");
  if (bytes > 0 && !is_device_memory(target, bytes, "cuMemsetD8Async"))
    misuse("cuMemsetD8Async of memory that no device has");
  note_work(stream);
  return code_of(machine().backend->fill(reinterpret_cast<void*>(target), value, bytes, handle(stream)));
}

CUresult kernel_get_param_info(CUkernel kernel, std::size_t index, std::size_t*, std::size_t* size) {
  const auto& arguments = about(find_kernel(kernel, "cuKernelGetParamInfo")).arguments;
  if (index >= arguments.size())
    return CUDA_ERROR_INVALID_VALUE;
  *size = arguments[index];
  return CUDA_SUCCESS;
}

CUresult launch_kernel(CUfunction function, unsigned grid, unsigned grid_y, unsigned grid_z, unsigned block,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                       void**) {
  need_context("cuLaunchKernel");
  need_own_stream(stream, "cuLaunchKernel");
  // The real driver takes a kernel here, too.
  const auto* loaded = find_kernel(reinterpret_cast<CUkernel>(function), "cuLaunchKernel");
  const auto* kernel = &about(loaded);
  constexpr unsigned most_threads = 1024;
  if (grid == 0 || grid_y == 0 || grid_z == 0 || block == 0 || block_y == 0 || block_z == 0
      || block * block_y * block_z > most_threads || !may_have_shared(loaded, shared_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  load_for_launch(loaded, stream);
  note_captured(stream, loaded);
  note_work(stream);
  const KernelInfo info{kernel->entry.c_str(), kernel->host, nullptr};
  if (!kernel->entry.starts_with("gpuactors_kernel_")) {
    // One from source: a word of each argument.
    std::vector<std::uint64_t> words(kernel->pack_bytes / sizeof(std::uint64_t));
    for (std::size_t i = 0; i < words.size(); ++i)
      std::memcpy(&words[i], arguments[i], sizeof(words[i]));
    return code_of(machine().backend->launch(info, {}, words.data(), kernel->pack_bytes, handle(stream)));
  }
  const auto n = *static_cast<const std::uint64_t*>(arguments[0]);
  return code_of(machine().backend->launch(info, {n, {}}, arguments[1], kernel->pack_bytes, handle(stream)));
}

} // namespace

void note_more(CUstream stream) {
  looks().outdate(stream);
}

StreamHandle handle(CUstream stream) {
  if (stream == nullptr)
    misuse("the NULL stream was used");
  return {stream};
}

Machine& machine() {
  static auto* one = [] {
    auto* made = new Machine;
    DeviceInfo info;
    info.units = 4;
    info.memory_bytes = std::uint64_t{2} << 30;
    made->device = std::make_shared<host::HostDevice>(std::move(info));
    made->backend = std::move(*made->device->open({}));
    return made;
  }();
  return *one;
}

void need_context(const char* api) {
  if (is_in_host_function())
    misuse(std::string{api} + " in a host function");
  if (current.empty() || current.back() == nullptr)
    misuse(std::string{api} + " without a current context");
  pass_loading();
}

const void* current_green() {
  return current.empty() || is_primary(current.back()) ? nullptr : current.back();
}

const void* current_context() {
  return current.empty() ? nullptr : current.back();
}

int current_device() {
  if (const auto* const green = current_green(); green != nullptr)
    return device_of_green(green);
  return static_cast<int>(reinterpret_cast<const int*>(current.back()) - context_marks.data());
}

void misuse(const std::string& what) {
  std::cerr << "fake CUDA driver: " << what << std::endl;
  std::abort();
}

} // namespace gpuactors::fake

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                             CUdriverProcAddressQueryResult* status) {
  using namespace gpuactors::fake;
  const std::string_view wanted{symbol};
  *function = nullptr;
#define FAKE_CUDA_ENTRY(name, api, version)                                                                            \
  if (wanted == #api)                                                                                                  \
    *function = reinterpret_cast<void*>(static_cast<PFN_##api##_v##version>(&name));
  GPUACTORS_CUDA_DRIVER_TABLE(FAKE_CUDA_ENTRY)
  GPUACTORS_CUDA_GREEN_TABLE(FAKE_CUDA_ENTRY)
  GPUACTORS_CUDA_OPTIONAL_TABLE(FAKE_CUDA_ENTRY)
#undef FAKE_CUDA_ENTRY
  if (const char* missing = std::getenv("FAKE_CUDA_MISSING"); missing != nullptr && wanted == missing)
    *function = nullptr;
  *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

/// By name, as the measuring program asks for them.
CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}

int fake_cuda_live() {
  return gpuactors::fake::live;
}

const char* fake_cuda_queues() {
  return gpuactors::fake::queues().c_str();
}

int fake_cuda_current_device() {
  return gpuactors::fake::current.empty() ? -1 : gpuactors::fake::current_device();
}

bool fake_cuda_has_current() {
  return !gpuactors::fake::current.empty();
}

void fake_cuda_keep_events_home(int result) {
  gpuactors::fake::events_stay_home = result;
}

int fake_cuda_waiting_copies() {
  return gpuactors::fake::waiting_copies;
}

void fake_cuda_slow_queries(bool slow) {
  gpuactors::fake::slow_queries = slow;
}

std::uint64_t fake_cuda_vain_queries() {
  return gpuactors::fake::vain_queries;
}

int fake_cuda_records() {
  return gpuactors::fake::records;
}

void fake_cuda_break(int result) {
  gpuactors::fake::machine().sticky = result;
  gpuactors::fake::wake_held();
}
}
