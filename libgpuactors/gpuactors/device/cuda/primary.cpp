// Retaining and entering primary contexts.
#include <gpuactors/device/cuda/primary.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace gpuactors::cuda {

namespace {

/// By default, a thread that waits would keep a processor busy all the time; `CudaBackend::synchronize` does so for a
/// moment only. If somebody else in the process has the context already, it stays as they have it.
void let_waiting_threads_sleep(const Driver& driver, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  if (driver.primary_ctx_get_state == nullptr || driver.primary_ctx_set_flags == nullptr
      || driver.primary_ctx_get_state(device, &flags, &active) != CUDA_SUCCESS || active != 0)
    return;
  (void)driver.primary_ctx_set_flags(device, (flags & ~unsigned{CU_CTX_SCHED_MASK}) | CU_CTX_SCHED_BLOCKING_SYNC);
}

} // namespace

Result<std::shared_ptr<Primary>> Primary::retain(const Driver& driver, int ordinal) {
  const Relaxed relaxed{driver};
  CUdevice device = 0;
  GPUACTORS_TRY(
      cuda::check(driver, driver.device_get(&device, ordinal), "cuDeviceGet", {ordinal, Errc::device_lost, {}}));
  let_waiting_threads_sleep(driver, device);
  CUcontext context = nullptr;
  const auto retained = driver.primary_ctx_retain(&context, device);
  // Nothing has run there: a device that takes nobody is no lost context, for which the process would be replaced.
  if (int mode = 0; retained == CUDA_ERROR_UNKNOWN
                    && driver.device_get_attribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) == CUDA_SUCCESS
                    && mode == CU_COMPUTEMODE_PROHIBITED)
    return fail(Errc::device_lost, fmt::format("device {} lets nobody compute: its compute mode is \"prohibited\" "
                                               "(nvidia-smi --compute-mode=0 lets all)",
                                               ordinal));
  GPUACTORS_TRY(cuda::check(driver, retained, "cuDevicePrimaryCtxRetain", {ordinal, Errc::device_lost, {}}));
  return std::shared_ptr<Primary>{new Primary(driver, ordinal, device, context)};
}

Primary::Primary(const Driver& driver, int ordinal, CUdevice device, CUcontext context)
  : driver_(driver), ordinal_(ordinal), device_(device), context_(context) {
  // nop
}

Primary::~Primary() {
  (void)driver_.primary_ctx_release(device_);
}

Result<void> Primary::check(CUresult result, const char* api, Errc otherwise, std::string detail) {
  auto outcome = cuda::check(driver_, result, api, {ordinal_, otherwise, std::move(detail)});
  if (!outcome && outcome.error().code() == Errc::context_lost)
    lost_ = true;
  return outcome;
}

Result<void> Primary::alive() const {
  if (lost_)
    return fail(Errc::context_lost, "the CUDA context of device " + std::to_string(ordinal_)
                                        + " was lost by an earlier error; this process must be replaced");
  return {};
}

void Primary::show_to(const Primary& reader, const void* memory) const noexcept {
  if (driver_.device_can_access_peer == nullptr || driver_.pointer_get_attribute == nullptr
      || driver_.mem_pool_set_access == nullptr)
    return;
  const Current current{*this};
  int can = 0;
  CUmemoryPool pool = nullptr;
  if (driver_.device_can_access_peer(&can, reader.device_, device_) != CUDA_SUCCESS || can == 0
      || driver_.pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                       reinterpret_cast<CUdeviceptr>(memory))
             != CUDA_SUCCESS
      || pool == nullptr)
    return;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = reader.ordinal_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // When it fails the copy takes the other way.
  (void)driver_.mem_pool_set_access(pool, &access, 1);
}

Result<void> Primary::probe() {
  const Current current{*this};
  std::size_t free = 0;
  std::size_t total = 0;
  return check(driver_.mem_get_info(&free, &total), "cuMemGetInfo");
}

namespace {

/// Those of this thread that may end in any order, in the order in which they began.
thread_local std::vector<const ContextScope*> loose_scopes;

} // namespace

ContextScope::ContextScope(const Primary& primary, bool always) : driver_(primary.driver()), is_loose_(always) {
  CUcontext now = nullptr;
  if (!always && driver_.ctx_get_current(&now) == CUDA_SUCCESS && now == primary.context())
    return;
  pushed_ = driver_.ctx_push_current(primary.context()) == CUDA_SUCCESS;
  if (pushed_ && is_loose_)
    loose_scopes.push_back(this);
}

ContextScope::~ContextScope() {
  if (!pushed_)
    return;
  CUcontext top = nullptr;
  if (!is_loose_) {
    (void)driver_.ctx_pop_current(&top);
    return;
  }
  const auto own = std::find(loose_scopes.begin(), loose_scopes.end(), this);
  if (own == loose_scopes.end())
    return; // on another thread, which has nothing of it
  // Those that began later go on.
  std::vector<CUcontext> later(static_cast<std::size_t>(std::distance(own, loose_scopes.end()) - 1));
  for (auto& context : later)
    (void)driver_.ctx_pop_current(&context);
  (void)driver_.ctx_pop_current(&top);
  for (auto context = later.rbegin(); context != later.rend(); ++context)
    (void)driver_.ctx_push_current(*context);
  loose_scopes.erase(own);
}

} // namespace gpuactors::cuda
