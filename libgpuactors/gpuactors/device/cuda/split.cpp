// Splitting a device, and green contexts over its groups.
#include <gpuactors/device/cuda/split.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace gpuactors::cuda {

namespace {

/// How many green contexts are kept, of those that somebody holds and others: about as many as older devices have, by
/// what is said of them.
constexpr std::size_t most_greens = 64;

/// Makes a context current as long as it lives.
class Entered {
public:
  Entered(const Driver& driver, CUcontext context) : driver_(driver) {
    entered_ = driver.ctx_push_current(context) == CUDA_SUCCESS;
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    CUcontext context = nullptr;
    if (entered_)
      (void)driver_.ctx_pop_current(&context);
  }

  explicit operator bool() const noexcept {
    return entered_;
  }

private:
  const Driver& driver_;
  bool entered_ = false;
};

/// Whether `stream` takes an event of the context that is current.
Result<void> try_event(Primary& primary, CUstream stream) {
  const auto& driver = primary.driver();
  CUevent event = nullptr;
  GPUACTORS_TRY(primary.check(driver.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  // By which error a driver refuses is written nowhere.
  auto taken =
      primary.check(driver.event_record(event, stream), "an event for a stream of a green context", Errc::unsupported);
  (void)driver.event_destroy(event);
  return taken;
}

/// Whose events the streams of a green context take: null: those of the primary context, which is current. cuda.h wants
/// an event and a stream to be of one context, and does not say whether a green context is another one than its
/// primary context. So the driver is asked. Nobody else uses the green context yet, so that it may be current here.
Result<CUcontext> context_of_events(Primary& primary, CUgreenCtx green) {
  const auto& driver = primary.driver();
  CUstream stream = nullptr;
  GPUACTORS_TRY(primary.check(driver.green_ctx_stream_create(&stream, green, CU_STREAM_NON_BLOCKING, 0),
                              "cuGreenCtxStreamCreate"));
  CUcontext home = nullptr;
  auto taken = try_event(primary, stream);
  if (!taken && !primary.lost() && driver.ctx_from_green_ctx != nullptr
      && driver.ctx_from_green_ctx(&home, green) == CUDA_SUCCESS) {
    if (const Entered entered{driver, home})
      taken = try_event(primary, stream);
  }
  (void)driver.stream_destroy(stream);
  GPUACTORS_TRY(taken);
  return home;
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
/// @returns of how many images.
std::size_t load_kernels(const Driver& driver, CUgreenCtx green, Images& images) {
  CUcontext context = nullptr;
  if (driver.ctx_from_green_ctx == nullptr || driver.ctx_from_green_ctx(&context, green) != CUDA_SUCCESS)
    return 0;
  const Entered entered{driver, context};
  return entered ? images.load_for_new_context() : 0;
}

} // namespace

Result<Split::Groups> Split::split(Primary& primary) {
  const auto& driver = primary.driver();
  CUdevResource all{};
  GPUACTORS_TRY(primary.check(driver.device_get_dev_resource(primary.device(), &all, CU_DEV_RESOURCE_TYPE_SM),
                              "cuDeviceGetDevResource", Errc::unsupported));
  const auto least = least_group(all);
  unsigned count = 0;
  const auto detail = fmt::format("{} SMs in groups of at least {}", all.sm.smCount, least);
  GPUACTORS_TRY(primary.check(driver.dev_sm_resource_split(nullptr, &count, &all, nullptr, 0, least),
                              "cuDevSmResourceSplitByCount", Errc::unsupported, detail));
  Groups groups{std::vector<CUdevResource>(count)};
  if (count > 0)
    GPUACTORS_TRY(primary.check(driver.dev_sm_resource_split(groups.equal.data(), &count, &all, &groups.rest, 0, least),
                                "cuDevSmResourceSplitByCount", Errc::unsupported, detail));
  groups.equal.resize(std::min<std::size_t>(groups.equal.size(), count));
  if (groups.equal.size() < 2)
    return fail(Errc::unsupported, fmt::format("{} make {} group", detail, groups.equal.size()));
  return groups;
}

Result<std::shared_ptr<Split>> Split::make(const std::shared_ptr<Primary>& primary) {
  const auto without = [](std::string reason, ComputeEnforcement how = ComputeEnforcement::unenforced,
                          int percent = 100) {
    return std::shared_ptr<Split>{new Split(std::move(reason), how, percent)};
  };
  if (const auto percent = mps_percentage(*primary); percent < 100)
    return without(fmt::format("MPS gives this process {} % of the SMs, whichever they are", percent),
                   ComputeEnforcement::capped, percent);
  // The driver lets processes take turns, each with all SMs.
  if (const auto* why = std::getenv("GPUACTORS_ISOLATED"))
    return without(why, ComputeEnforcement::time_sliced);
  if (const auto* missing = primary->driver().missing_for_green)
    return without(fmt::format("the CUDA driver has no {}: CUDA 12.5 or later is needed", missing));
  auto groups = split(*primary);
  if (!groups && groups.error().code() == Errc::context_lost)
    return fail(groups.error());
  if (!groups)
    return without(groups.error().message());
  return std::shared_ptr<Split>{new Split(primary, std::move(*groups))};
}

Split::~Split() {
  if (greens_.empty())
    return;
  const Current current{*primary_};
  // It fails only when the context is lost, and then all of it goes with the process.
  for (const auto& [groups, green] : greens_)
    (void)primary_->driver().green_ctx_destroy(green.context);
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
  give_back(part);
  if (joined.error().code() == Errc::unsupported) {
    const std::lock_guard guard{mutex_};
    reason_ = joined.error().message();
  }
  return fail(joined.error());
}

Result<void> Split::join(Primary& primary, Part& part, Images& images) {
  const auto join_as = [this, &part](Green& green) {
    ++green.holders;
    green.used = ++uses_;
    part.context = green.context;
    part.sms = green.sms;
    part.events = green.events;
  };
  Green own;
  {
    const std::lock_guard guard{greens_mutex_};
    if (const auto known = greens_.find(part.groups); known != greens_.end()) {
      if (known->second.holders > 0) {
        join_as(known->second);
        return {};
      }
      // Out of the others' sight: it is made current below.
      own = known->second;
      greens_.erase(known);
    }
  }
  if (own.context == nullptr) {
    GPUACTORS_LET(made, make_green(primary, part.groups));
    own = made;
  }
  // Those that are known since somebody last held it, too.
  if (own.images < images.count())
    own.images = load_kernels(primary.driver(), own.context, images);
  CUgreenCtx spare = nullptr;
  {
    const std::lock_guard guard{greens_mutex_};
    join_as(greens_.try_emplace(part.groups, own).first->second);
    spare = take_spare(most_greens);
  }
  // Somebody else may have made the same meanwhile.
  if (part.context != own.context)
    (void)primary.driver().green_ctx_destroy(own.context);
  if (spare != nullptr)
    (void)primary.driver().green_ctx_destroy(spare);
  return {};
}

CUgreenCtx Split::take_spare(std::size_t kept) {
  if (greens_.size() <= kept)
    return nullptr;
  auto spare = greens_.end();
  for (auto one = greens_.begin(); one != greens_.end(); ++one)
    if (one->second.holders == 0 && (spare == greens_.end() || one->second.used < spare->second.used))
      spare = one;
  if (spare == greens_.end())
    return nullptr;
  auto* const context = spare->second.context;
  greens_.erase(spare);
  return context;
}

Result<Split::Green> Split::make_green(Primary& primary, const std::vector<int>& groups) {
  auto made = make_one(primary, groups);
  // A driver that makes no more may have room for as many as end; one that cannot make them has not.
  while (!made && !primary.lost() && made.error().code() != Errc::unsupported) {
    CUgreenCtx spare = nullptr;
    {
      const std::lock_guard guard{greens_mutex_};
      spare = take_spare(0);
    }
    if (spare == nullptr)
      break;
    (void)primary.driver().green_ctx_destroy(spare);
    made = make_one(primary, groups);
  }
  return made;
}

Result<Split::Green> Split::make_one(Primary& primary, const std::vector<int>& groups) const {
  const auto& driver = primary.driver();
  std::vector<CUdevResource> resources;
  resources.reserve(groups.size() + 1);
  for (const auto group : groups)
    resources.push_back(groups_[static_cast<std::size_t>(group)]);
  Green green;
  if (groups.back() + 1 == group_count() && rest_.sm.smCount > 0) {
    auto all = resources;
    all.push_back(rest_);
    auto made = create(primary, std::move(all), Errc::unsupported);
    // Nothing promises that a driver takes what is left together with groups.
    if (!made && made.error().code() != Errc::unsupported)
      return fail(made.error());
    green.context = made ? *made : nullptr;
  }
  if (green.context == nullptr) {
    GPUACTORS_LET(made, create(primary, std::move(resources), Errc::internal));
    green.context = made;
  }
  CUdevResource held{};
  auto counted = primary.check(driver.green_ctx_get_dev_resource(green.context, &held, CU_DEV_RESOURCE_TYPE_SM),
                               "cuGreenCtxGetDevResource");
  if (!counted) {
    (void)driver.green_ctx_destroy(green.context);
    return fail(counted.error());
  }
  green.sms = static_cast<int>(held.sm.smCount);
  auto events = context_of_events(primary, green.context);
  if (!events) {
    (void)driver.green_ctx_destroy(green.context);
    return fail(events.error());
  }
  green.events = *events;
  return green;
}

Result<CUgreenCtx> Split::create(Primary& primary, std::vector<CUdevResource> resources, Errc otherwise) const {
  const auto& driver = primary.driver();
  const auto detail = fmt::format("{} of {} groups of SMs", resources.size(), groups_.size());
  CUdevResourceDesc description = nullptr;
  GPUACTORS_TRY(primary.check(
      driver.dev_resource_generate_desc(&description, resources.data(), static_cast<unsigned>(resources.size())),
      "cuDevResourceGenerateDesc", otherwise, detail));
  CUgreenCtx context = nullptr;
  GPUACTORS_TRY(
      primary.check(driver.green_ctx_create(&context, description, primary.device(), CU_GREEN_CTX_DEFAULT_STREAM),
                    "cuGreenCtxCreate", otherwise, detail));
  return context;
}

void Split::give_back(const Part& part) noexcept {
  if (part.context != nullptr) {
    const std::lock_guard guard{greens_mutex_};
    --greens_.find(part.groups)->second.holders;
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

Result<CUevent> Split::make_event(Primary& primary, const Part& part) {
  const auto& driver = primary.driver();
  CUevent event = nullptr;
  if (part.events == nullptr) {
    GPUACTORS_TRY(primary.check(driver.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    return event;
  }
  // A green context is current on one thread at a time.
  const std::lock_guard guard{greens_mutex_};
  const Entered entered{driver, part.events};
  if (!entered)
    return fail(Errc::internal, "cuCtxPushCurrent: a green context cannot be entered");
  GPUACTORS_TRY(primary.check(driver.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  return event;
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
