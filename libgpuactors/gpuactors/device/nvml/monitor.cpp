// Asks the management library about GPUs.
#include <gpuactors/device/nvml/monitor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace gpuactors::nvml {

namespace {

using Text = std::array<char, 96>;

/// Distances for the library's topology levels, from one board to the other end of the machine.
constexpr std::array<std::pair<int, int>, 6> levels{{{0, 2}, {10, 3}, {20, 4}, {30, 5}, {40, 6}, {50, 8}}};
constexpr int farthest = 10;
constexpr int nvlink_index = 2;
constexpr int uncorrected = 1;
constexpr int volatile_counter = 0;

} // namespace

Result<Monitor*> Monitor::get() {
  // The monitor is never destroyed, because the library has threads of its own.
  static const auto outcome = []() -> Result<Monitor*> {
    GPUACTORS_LET(library, load_library());
    return new Monitor(library, "/");
  }();
  return outcome;
}

Monitor::~Monitor() {
  if (events_ != nullptr)
    (void)library_.event_set_free(events_);
}

// -- what there is -------------------------------------------------------------------------------

Result<std::vector<Gpu>> Monitor::list() {
  const std::lock_guard guard{mutex_};
  return read();
}

Result<std::vector<Gpu>> Monitor::read() {
  unsigned count = 0;
  GPUACTORS_TRY(check(library_, library_.get_count(&count), "nvmlDeviceGetCount"));
  known_.clear();
  std::vector<Gpu> result;
  for (unsigned i = 0; i < count; ++i) {
    DeviceHandle handle = nullptr;
    if (library_.get_handle(i, &handle) != success)
      continue;
    auto info = describe(handle, handle);
    if (!info)
      continue;
    describe_slices(handle, *info);
    result.push_back(std::move(*info));
  }
  return result;
}

Result<Gpu> Monitor::describe(DeviceHandle handle, DeviceHandle gpu) {
  Text text{};
  Gpu info;
  GPUACTORS_TRY(check(library_, library_.get_uuid(handle, text.data(), text.size()), "nvmlDeviceGetUUID"));
  info.uuid = text.data();
  GPUACTORS_TRY(check(library_, library_.get_name(handle, text.data(), text.size()), "nvmlDeviceGetName"));
  info.name = text.data();
  Memory memory{};
  GPUACTORS_TRY(check(library_, library_.get_memory(handle, &memory), "nvmlDeviceGetMemoryInfo"));
  info.memory_bytes = memory.total;
  info.numa_node = numa_node_of(gpu);
  known_.push_back({handle, info.uuid, gpu});
  return info;
}

void Monitor::describe_slices(DeviceHandle gpu, Gpu& info) {
  unsigned current = 0;
  unsigned pending = 0;
  unsigned count = 0;
  if (library_.get_mig_mode == nullptr || library_.get_mig_count == nullptr || library_.get_mig_handle == nullptr
      || library_.get_mig_mode(gpu, &current, &pending) != success || current == 0)
    return;
  info.mig = true;
  if (library_.get_mig_count(gpu, &count) != success)
    return;
  for (unsigned i = 0; i < count; ++i) {
    DeviceHandle handle = nullptr;
    // The indices of MIG devices may have gaps.
    if (library_.get_mig_handle(gpu, i, &handle) != success)
      continue;
    auto slice = describe(handle, gpu);
    if (!slice)
      continue;
    Attributes attributes{};
    if (library_.get_attributes != nullptr && library_.get_attributes(handle, &attributes) == success)
      slice->sms = static_cast<int>(attributes.multiprocessors);
    info.slices.push_back(std::move(*slice));
  }
}

int Monitor::numa_node_of(DeviceHandle gpu) const {
  PciInfo pci{};
  if (library_.get_pci == nullptr || library_.get_pci(gpu, &pci) != success)
    return -1;
  const auto folder = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  std::ifstream file{root_ / "sys/bus/pci/devices" / folder / "numa_node"};
  int node = -1;
  return file >> node ? node : -1;
}

std::string Monitor::uuid_of(DeviceHandle handle) const {
  Text text{};
  return library_.get_uuid(handle, text.data(), text.size()) == success ? std::string{text.data()} : std::string{};
}

Result<Monitor::Known> Monitor::find(const std::string& uuid) {
  const auto look = [&]() -> const Known* {
    for (const auto& known : known_)
      // The handle of a removed slice may refer to another slice now.
      if (known.uuid == uuid && uuid_of(known.handle) == uuid)
        return &known;
    return nullptr;
  };
  if (const auto* known = look())
    return *known;
  GPUACTORS_TRY(read());
  if (const auto* known = look())
    return *known;
  return fail(Errc::not_found, fmt::format("there is no GPU {} on this machine", uuid));
}

// -- how it does ---------------------------------------------------------------------------------

Result<GpuStatus> Monitor::status(const std::string& uuid) {
  const std::lock_guard guard{mutex_};
  GPUACTORS_LET(known, find(uuid));
  Memory memory{};
  GPUACTORS_TRY(check(library_, library_.get_memory(known.handle, &memory), "nvmlDeviceGetMemoryInfo"));
  GpuStatus status;
  status.memory_free = memory.free;
  status.memory_total = memory.total;
  Utilization use{};
  if (library_.get_utilization != nullptr && library_.get_utilization(known.handle, &use) == success) {
    status.gpu_percent = static_cast<int>(use.gpu);
    status.memory_percent = static_cast<int>(use.memory);
  }
  unsigned power = 0;
  if (library_.get_power != nullptr && library_.get_power(known.gpu, &power) == success)
    status.milliwatts = static_cast<int>(power);
  unsigned long long errors = 0;
  if (library_.get_ecc_errors != nullptr
      && library_.get_ecc_errors(known.gpu, uncorrected, volatile_counter, &errors) == success)
    status.uncorrected_errors = errors;
  return status;
}

Result<int> Monitor::distance(const std::string& one, const std::string& other) {
  const std::lock_guard guard{mutex_};
  GPUACTORS_LET(a, find(one));
  GPUACTORS_LET(b, find(other));
  if (a.gpu == b.gpu)
    return 0;
  int status = -1;
  if (library_.get_p2p_status != nullptr && library_.get_p2p_status(a.gpu, b.gpu, nvlink_index, &status) == success
      && status == 0)
    return 1;
  int level = -1;
  if (library_.get_common_ancestor != nullptr && library_.get_common_ancestor(a.gpu, b.gpu, &level) == success)
    for (const auto& [number, steps] : levels)
      if (level == number)
        return steps;
  return farthest;
}

// -- what happens to it --------------------------------------------------------------------------

Result<void> Monitor::watch() {
  const std::lock_guard guard{mutex_};
  if (watches_)
    return {};
  if (library_.event_set_create == nullptr || library_.event_set_wait == nullptr || library_.event_set_free == nullptr
      || library_.register_events == nullptr)
    return fail(Errc::unsupported, "libnvidia-ml.so.1 is too old: it reports no events");
  EventSet events = nullptr;
  GPUACTORS_TRY(check(library_, library_.event_set_create(&events), "nvmlEventSetCreate"));
  if (auto all = read(); !all) {
    (void)library_.event_set_free(events);
    return fail(all.error());
  }
  for (const auto& known : known_)
    // Only whole GPUs report events.
    if (known.handle == known.gpu && add_to(events, known.gpu))
      watched_[known.gpu].push_back(known.uuid);
  for (const auto& known : known_)
    if (const auto gpu = watched_.find(known.gpu); gpu != watched_.end() && known.handle != known.gpu)
      gpu->second.push_back(known.uuid);
  if (watched_.empty()) {
    (void)library_.event_set_free(events);
    return fail(Errc::unsupported, "no GPU of this machine reports events");
  }
  events_ = events;
  watches_ = true;
  return {};
}

bool Monitor::add_to(EventSet events, DeviceHandle gpu) const {
  // A request that includes an unsupported event registers none.
  unsigned long long types = watched_events;
  return (library_.get_event_types == nullptr || library_.get_event_types(gpu, &types) == success)
         && library_.register_events(gpu, types & watched_events, events) == success;
}

void Monitor::leave_lost() {
  EventSet events = nullptr;
  if (library_.event_set_create(&events) != success)
    return;
  for (const auto& [gpu, uuids] : watched_)
    if (lost_.count(gpu) == 0)
      (void)add_to(events, gpu);
  (void)library_.event_set_free(std::exchange(events_, events));
}

/// Finds out which GPUs are lost, because the library's wait does not say.
void Monitor::find_lost() {
  for (const auto& [gpu, uuids] : watched_) {
    Memory memory{};
    if (library_.get_memory(gpu, &memory) == gpu_is_lost && lost_.insert(gpu).second)
      losses_.push_back({uuids, Severity::fatal, "the GPU is lost"});
  }
}

Result<std::optional<GpuEvent>> Monitor::wait(std::chrono::milliseconds timeout) {
  GPUACTORS_TRY(watch());
  const auto take_loss = [this] {
    auto loss = std::optional{std::move(losses_.front())};
    losses_.pop_front();
    return loss;
  };
  if (!losses_.empty())
    return take_loss();
  EventData data{};
  const auto result = library_.event_set_wait(events_, &data, static_cast<unsigned>(timeout.count()));
  if (result == timed_out)
    return std::optional<GpuEvent>{};
  if (result == gpu_is_lost) {
    find_lost();
    leave_lost();
    find_lost(); // those that were lost meanwhile, for whose events nobody can register any more
    if (!losses_.empty())
      return take_loss();
  }
  GPUACTORS_TRY(check(library_, result, "nvmlEventSetWait"));
  GpuEvent event;
  // Takes the UUIDs from the table, because a GPU that has fallen off the bus does not answer.
  if (const auto gpu = watched_.find(data.device); gpu != watched_.end())
    event.uuids = gpu->second;
  event.severity = severity_of(data.type, data.data);
  event.text = describe_event(data.type, data.data);
  return std::optional{std::move(event)};
}

} // namespace gpuactors::nvml
