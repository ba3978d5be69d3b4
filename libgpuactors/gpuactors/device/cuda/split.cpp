// Splitting a device, and green contexts over its groups.
#include <gpuactors/device/cuda/split.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace gpuactors::cuda {

namespace {

/// The groups of the device, as small as it makes them.
Result<std::vector<CUdevResource>> split(Primary& primary) {
  const auto& driver = primary.driver();
  CUdevResource all{};
  GPUACTORS_TRY(primary.check(driver.device_get_dev_resource(primary.device(), &all, CU_DEV_RESOURCE_TYPE_SM),
                              "cuDeviceGetDevResource", Errc::unsupported));
  // Drivers of CUDA 12 do not say it; 1 is rounded up to what they can do.
  const auto least = std::max(1U, all.sm.minSmPartitionSize);
  unsigned count = 0;
  const auto detail = fmt::format("{} SMs in groups of at least {}", all.sm.smCount, least);
  GPUACTORS_TRY(primary.check(driver.dev_sm_resource_split(nullptr, &count, &all, nullptr, 0, least),
                              "cuDevSmResourceSplitByCount", Errc::unsupported, detail));
  std::vector<CUdevResource> groups(count);
  if (count > 0)
    GPUACTORS_TRY(primary.check(driver.dev_sm_resource_split(groups.data(), &count, &all, nullptr, 0, least),
                                "cuDevSmResourceSplitByCount", Errc::unsupported, detail));
  groups.resize(std::min<std::size_t>(groups.size(), count));
  if (groups.size() < 2)
    return fail(Errc::unsupported, fmt::format("{} make {} group", detail, groups.size()));
  return groups;
}

/// What MPS limits this process to, if it runs and was told a limit.
int mps_percentage(Primary& primary) {
  int enabled = 0;
  const char* text = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  // Drivers of CUDA 12.3 and before do not know the question.
  if (text == nullptr
      || primary.driver().device_get_attribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, primary.device())
             != CUDA_SUCCESS
      || enabled == 0)
    return 100;
  const auto percent = std::atoi(text);
  return percent > 0 && percent < 100 ? percent : 100;
}

/// The driver may load code for each context by itself. Nobody else uses this one yet, so that it may be current here.
void load_kernels(const Driver& driver, CUgreenCtx green, Images& images) {
  CUcontext context = nullptr;
  if (driver.ctx_from_green_ctx == nullptr || driver.ctx_from_green_ctx(&context, green) != CUDA_SUCCESS
      || driver.ctx_push_current(context) != CUDA_SUCCESS)
    return;
  images.load_for_new_context();
  (void)driver.ctx_pop_current(&context);
}

} // namespace

Result<std::shared_ptr<Split>> Split::make(const std::shared_ptr<Primary>& primary) {
  const auto without = [](std::string reason, ComputeEnforcement how = ComputeEnforcement::unenforced,
                          int percent = 100) {
    return std::shared_ptr<Split>{new Split(std::move(reason), how, percent)};
  };
  if (const auto percent = mps_percentage(*primary); percent < 100)
    return without(fmt::format("MPS gives this process {} % of the SMs, whichever they are", percent),
                   ComputeEnforcement::capped, percent);
  // The driver lets processes take turns, each with all SMs.
  if (std::getenv("GPUACTORS_ISOLATED") != nullptr)
    return without("a process of its own", ComputeEnforcement::time_sliced);
  if (const auto* missing = primary->driver().missing_for_green)
    return without(fmt::format("the CUDA driver has no {}: CUDA 12.5 or later is needed", missing));
  auto groups = split(*primary);
  if (!groups && groups.error().code() == Errc::context_lost)
    return fail(groups.error());
  if (!groups)
    return without(groups.error().message());
  return std::shared_ptr<Split>{new Split(std::move(*groups))};
}

std::string Split::reason() const {
  const std::lock_guard guard{mutex_};
  return reason_;
}

Result<Split::Part> Split::take(Primary& primary, Share share, Images& images) {
  Part part;
  {
    const std::lock_guard guard{mutex_};
    if (!reason_.empty())
      return fail(Errc::unsupported, reason_);
    part.holder = allocator_.take(share);
    part.groups = allocator_.groups_of(part.holder);
  }
  auto joined = join(primary, part, images);
  if (joined)
    return part;
  give_back(primary.driver(), part);
  if (joined.error().code() == Errc::unsupported) {
    const std::lock_guard guard{mutex_};
    reason_ = joined.error().message();
  }
  return fail(joined.error());
}

Result<void> Split::join(Primary& primary, Part& part, Images& images) {
  const std::lock_guard guard{greens_mutex_};
  auto known = greens_.find(part.groups);
  if (known == greens_.end()) {
    GPUACTORS_LET(made, make_green(primary, part.groups));
    known = greens_.emplace(part.groups, made).first;
    load_kernels(primary.driver(), made.context, images);
  }
  auto& green = known->second;
  ++green.holders;
  part.context = green.context;
  part.sms = green.sms;
  return {};
}

Result<Split::Green> Split::make_green(Primary& primary, const std::vector<int>& groups) const {
  const auto& driver = primary.driver();
  std::vector<CUdevResource> resources;
  resources.reserve(groups.size());
  for (const auto group : groups)
    resources.push_back(groups_[static_cast<std::size_t>(group)]);
  const auto detail = fmt::format("{} of {} groups of SMs", resources.size(), groups_.size());
  CUdevResourceDesc description = nullptr;
  GPUACTORS_TRY(primary.check(
      driver.dev_resource_generate_desc(&description, resources.data(), static_cast<unsigned>(resources.size())),
      "cuDevResourceGenerateDesc", Errc::internal, detail));
  Green green;
  GPUACTORS_TRY(
      primary.check(driver.green_ctx_create(&green.context, description, primary.device(), CU_GREEN_CTX_DEFAULT_STREAM),
                    "cuGreenCtxCreate", Errc::internal, detail));
  CUdevResource held{};
  auto counted = primary.check(driver.green_ctx_get_dev_resource(green.context, &held, CU_DEV_RESOURCE_TYPE_SM),
                               "cuGreenCtxGetDevResource");
  if (!counted) {
    (void)driver.green_ctx_destroy(green.context);
    return fail(counted.error());
  }
  green.sms = static_cast<int>(held.sm.smCount);
  return green;
}

void Split::give_back(const Driver& driver, const Part& part) noexcept {
  if (part.context != nullptr) {
    const std::lock_guard guard{greens_mutex_};
    const auto known = greens_.find(part.groups);
    if (--known->second.holders == 0) {
      // It fails only when the context is lost, and then all of it goes with the process.
      (void)driver.green_ctx_destroy(known->second.context);
      greens_.erase(known);
    }
  }
  const std::lock_guard guard{mutex_};
  allocator_.give_back(part.holder);
}

Result<CUstream> Split::make_stream(Primary& primary, const Part& part) {
  const std::lock_guard guard{greens_mutex_};
  CUstream stream = nullptr;
  GPUACTORS_TRY(
      primary.check(primary.driver().green_ctx_stream_create(&stream, part.context, CU_STREAM_NON_BLOCKING, 0),
                    "cuGreenCtxStreamCreate"));
  return stream;
}

void Split::destroy_stream(const Driver& driver, CUstream stream) noexcept {
  const std::lock_guard guard{greens_mutex_};
  (void)driver.stream_destroy(stream);
}

bool Split::is_shared(const Part& part) const {
  const std::lock_guard guard{mutex_};
  return allocator_.is_shared(part.holder);
}

Result<std::shared_ptr<Split>> Splits::of(const std::shared_ptr<Primary>& primary) {
  const std::lock_guard guard{mutex_};
  auto& known = splits_[primary->ordinal()];
  if (auto split = known.lock())
    return split;
  GPUACTORS_LET(split, Split::make(primary));
  known = split;
  return split;
}

} // namespace gpuactors::cuda
