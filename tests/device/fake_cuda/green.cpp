// Splitting, describing, making and ending green contexts, and what each of them must not be given.
#include <device/fake_cuda/code.hpp>
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace gpuactors::fake {

namespace {

/// What the driver keeps of its own in a resource.
struct Mark {
  int split = 0;
  unsigned groups = 0;
};
static_assert(sizeof(Mark) <= sizeof(CUdevResource::_internal_padding));

/// Stands for the SMs that fit in no group, among the bits of groups.
constexpr unsigned rest = 1U << 31;
constexpr unsigned rest_sms = sm_count % group_sms;

unsigned count_sms(unsigned groups) {
  return group_sms * static_cast<unsigned>(std::popcount(groups & ~rest)) + ((groups & rest) != 0 ? rest_sms : 0);
}

struct Green {
  unsigned groups = 0;
  int device = 0;
  int streams = 0;
};

struct State {
  std::mutex mutex;
  int splits = 0;
  std::map<std::string, int> failures;
  std::size_t most_contexts = SIZE_MAX;
  std::map<CUdevResourceDesc, unsigned> descriptions;
  std::set<Green*> contexts;
  std::map<CUstream, Green*> streams;
  int primary_work = 0;
  int green_work = 0;
  unsigned last_groups = 0;
};

State& state() {
  static auto* one = new State;
  return *one;
}

Mark mark_of(const CUdevResource& resource) {
  Mark mark;
  std::memcpy(&mark, resource._internal_padding, sizeof(mark));
  return mark;
}

CUdevResource make_resource(Mark mark, unsigned sms) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(resource._internal_padding, &mark, sizeof(mark));
  resource.sm.smCount = sms;
#if CUDA_VERSION >= 13000
  resource.sm.minSmPartitionSize = group_sms;
  resource.sm.smCoscheduledAlignment = group_sms;
#endif
  return resource;
}

Green* find(CUgreenCtx context) {
  auto* green = reinterpret_cast<Green*>(context);
  if (state().contexts.count(green) == 0)
    misuse("a green context was used that is not there");
  return green;
}

} // namespace

CUresult planned(const char* api) {
  const std::lock_guard guard{state().mutex};
  const auto found = state().failures.find(api);
  if (found != state().failures.end())
    return static_cast<CUresult>(found->second);
  return static_cast<CUresult>(machine().sticky.load());
}

CUresult device_get_dev_resource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  if (const auto result = planned("cuDeviceGetDevResource"); result != CUDA_SUCCESS)
    return result;
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = make_resource({}, sm_count);
  return CUDA_SUCCESS;
}

CUresult dev_sm_resource_split(CUdevResource* result, unsigned* count, const CUdevResource* input,
                               CUdevResource* remaining, unsigned flags, unsigned least) {
  if (const auto planned_result = planned("cuDevSmResourceSplitByCount"); planned_result != CUDA_SUCCESS)
    return planned_result;
  if (mark_of(*input).split != 0 || flags != 0 || least > sm_count)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const auto units = std::max(1U, (least + group_sms - 1) / group_sms);
  const auto most = sm_count / group_sms / units;
  if (result == nullptr) {
    *count = most;
    return CUDA_SUCCESS;
  }
  const std::lock_guard guard{state().mutex};
  ++state().splits;
  *count = std::min(*count, most);
  for (unsigned i = 0; i < *count; ++i)
    result[i] = make_resource({state().splits, ((1U << units) - 1) << (i * units)}, units * group_sms);
  if (remaining != nullptr)
    *remaining = make_resource({state().splits, rest}, rest_sms);
  return CUDA_SUCCESS;
}

CUresult dev_resource_generate_desc(CUdevResourceDesc* description, CUdevResource* resources, unsigned count) {
  if (const auto result = planned("cuDevResourceGenerateDesc"); result != CUDA_SUCCESS)
    return result;
  if (count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned groups = 0;
  for (unsigned i = 0; i < count; ++i) {
    const auto mark = mark_of(resources[i]);
    if (mark.split != mark_of(resources[0]).split || mark.split == 0 || (groups & mark.groups) != 0)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    groups |= mark.groups;
  }
  if ((groups & rest) != 0)
    if (const auto result = planned("the rest of a split"); result != CUDA_SUCCESS)
      return result;
  const std::lock_guard guard{state().mutex};
  // Groups are what a description is: handles need not be freed.
  *description = reinterpret_cast<CUdevResourceDesc>(static_cast<std::uintptr_t>(groups));
  state().descriptions[*description] = groups;
  return CUDA_SUCCESS;
}

CUresult green_ctx_create(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  need_context("cuGreenCtxCreate");
  if (const auto result = planned("cuGreenCtxCreate"); result != CUDA_SUCCESS)
    return result;
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM)
    misuse("a green context without CU_GREEN_CTX_DEFAULT_STREAM");
  const std::lock_guard guard{state().mutex};
  const auto found = state().descriptions.find(description);
  if (found == state().descriptions.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (state().contexts.size() >= state().most_contexts)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto* green = new Green{found->second, device};
  state().contexts.insert(green);
  *context = reinterpret_cast<CUgreenCtx>(green);
  ++live;
  return CUDA_SUCCESS;
}

CUresult green_ctx_destroy(CUgreenCtx context) {
  forget_code_of_context(context);
  const std::lock_guard guard{state().mutex};
  auto* green = find(context);
  if (green->streams > 0)
    misuse("a green context was destroyed that still has streams");
  if (has_graphs_of(context))
    misuse("a green context was destroyed that still has graphs");
  state().contexts.erase(green);
  delete green;
  --live;
  return CUDA_SUCCESS;
}

CUresult green_ctx_get_dev_resource(CUgreenCtx context, CUdevResource* resource, CUdevResourceType) {
  if (const auto result = planned("cuGreenCtxGetDevResource"); result != CUDA_SUCCESS)
    return result;
  const std::lock_guard guard{state().mutex};
  const auto groups = find(context)->groups;
  *resource = make_resource({-1, groups}, count_sms(groups));
  return CUDA_SUCCESS;
}

CUresult ctx_from_green_ctx(CUcontext* current, CUgreenCtx context) {
  const std::lock_guard guard{state().mutex};
  *current = reinterpret_cast<CUcontext>(find(context));
  return CUDA_SUCCESS;
}

CUresult green_ctx_stream_create(CUstream* stream, CUgreenCtx context, unsigned flags, int) {
  if (const auto result = planned("cuGreenCtxStreamCreate"); result != CUDA_SUCCESS)
    return result;
  if (flags != CU_STREAM_NON_BLOCKING)
    misuse("a stream of a green context without CU_STREAM_NON_BLOCKING");
  const auto made = machine().backend->make_stream();
  const std::lock_guard guard{state().mutex};
  auto* green = find(context);
  *stream = static_cast<CUstream>(made->native);
  state().streams[*stream] = green;
  remember_device_of_stream(*stream, green->device);
  ++green->streams;
  ++live;
  return CUDA_SUCCESS;
}

void forget_stream(CUstream stream) {
  const std::lock_guard guard{state().mutex};
  const auto found = state().streams.find(stream);
  if (found == state().streams.end())
    return;
  --found->second->streams;
  state().streams.erase(found);
}

void note_work(CUstream stream) {
  note_more(stream);
  remember_stream(stream);
  const std::lock_guard guard{state().mutex};
  const auto found = state().streams.find(stream);
  state().last_groups = found != state().streams.end() ? found->second->groups & ~rest : 0;
  ++(found != state().streams.end() ? state().green_work : state().primary_work);
}

const void* green_of(CUstream stream) {
  const std::lock_guard guard{state().mutex};
  const auto found = state().streams.find(stream);
  return found != state().streams.end() ? found->second : nullptr;
}

int device_of_green(const void* context) {
  const std::lock_guard guard{state().mutex};
  return find(reinterpret_cast<CUgreenCtx>(const_cast<void*>(context)))->device;
}

unsigned sms_of(CUstream stream) {
  const std::lock_guard guard{state().mutex};
  const auto found = state().streams.find(stream);
  return found != state().streams.end() ? count_sms(found->second->groups) : sm_count;
}

} // namespace gpuactors::fake

extern "C" {

void fake_cuda_fail(const char* api, int result) {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  if (result == 0)
    state().failures.erase(api);
  else
    state().failures[api] = result;
}

int fake_cuda_splits() {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  return state().splits;
}

int fake_cuda_greens() {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  return static_cast<int>(state().contexts.size());
}

void fake_cuda_limit_greens(int most) {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  state().most_contexts = most > 0 ? static_cast<std::size_t>(most) : SIZE_MAX;
}

int fake_cuda_take_work(bool green) {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  return std::exchange(green ? state().green_work : state().primary_work, 0);
}

unsigned fake_cuda_last_groups() {
  using gpuactors::fake::state;
  const std::lock_guard guard{state().mutex};
  return state().last_groups;
}
}
