// Creates the devices that a node offers.
#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/absent.hpp>
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/device/host/device.hpp>
#include <gpuactors/device/nvml/monitor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <sstream>

namespace gpuactors {

namespace {

/// The assumed memory of an offered device that does not exist, if no existing device shows a size.
constexpr std::uint64_t absent_memory_bytes = std::uint64_t{16} << 30;

/// Distances are reported for up to this many devices: nodes with more are not real, and their distances would not fit
/// in a message.
constexpr std::size_t most_distant = 64;

using Devices = std::vector<std::shared_ptr<Device>>;

std::uint64_t machine_memory() {
  const auto bytes = usable_memory();
  return bytes > 0 ? bytes : std::uint64_t{4} << 30;
}

/// Collects the devices of all specifications and hands out indices.
class Maker {
public:
  Maker(const std::vector<DeviceOffer>& specs, const DiscoveryOptions& options) : options_(options) {
    for (const auto& spec : specs)
      host_count_ += spec.form == DeviceOffer::Form::host ? spec.count : 0;
  }

  Result<void> add(const DeviceOffer& spec) {
    switch (spec.form) {
    case DeviceOffer::Form::cuda_all:
      return add_all();
    case DeviceOffer::Form::cuda_uuids:
      return add_named(spec.uuids);
    case DeviceOffer::Form::cuda_count:
      return add_count(spec.count);
    case DeviceOffer::Form::host:
      return add_host(spec);
    }
    return fail(Errc::internal, "unknown form of a device specification");
  }

  /// Returns the CUDA devices, or the error that says why there are none.
  const Result<std::vector<DeviceInfo>>& cuda() {
    if (!cuda_)
      cuda_.emplace(list_cuda());
    return *cuda_;
  }

  Result<void> add_described(DeviceInfo info) {
    if (info.kind == DeviceKind::host)
      return push(std::make_shared<host::HostDevice>(std::move(info)));
    if (info.uuid.empty()) {
      auto reason = fmt::format("CUDA device {} does not exist, it was only offered", info.index);
      return push(std::make_shared<AbsentDevice>(std::move(info), std::move(reason)));
    }
    const auto& list = cuda();
    if (!list)
      return fail(list.error());
    for (const auto& visible : *list)
      if (visible.uuid == info.uuid && visible.ordinal >= 0) {
        info.ordinal = visible.ordinal;
        GPUACTORS_LET(device, module_->device(info));
        return push(std::move(device));
      }
    return fail(Errc::not_found, fmt::format("the CUDA device {} is not visible to this process", info.uuid));
  }

  Devices take() {
    return std::move(devices_);
  }

private:
  Result<std::vector<DeviceInfo>> list_cuda() {
    auto loaded = options_.cuda ? options_.cuda() : load_cuda_module();
    if (!loaded)
      return fail(loaded.error());
    module_ = *loaded;
    GPUACTORS_LET(list, module_->devices());
    const auto indices = node_indices(list.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      list[i].index = indices.empty() ? static_cast<int>(i) : indices[i];
    const auto gpus = list_gpus();
    for (const auto& gpu : gpus) {
      join(list, gpu);
      for (const auto& slice : gpu.slices)
        join(list, slice);
    }
    add_hidden(list, gpus);
    return std::move(list);
  }

  /// Returns the GPUs that the management library knows. A missing library is no error: the list is then empty.
  std::vector<nvml::Gpu> list_gpus() const {
    if (options_.gpus) {
      auto listed = options_.gpus();
      return listed ? std::move(*listed) : std::vector<nvml::Gpu>{};
    }
    if (options_.cuda)
      return {};
    auto monitor = nvml::Monitor::get();
    if (!monitor)
      return {};
    auto listed = (*monitor)->list();
    return listed ? std::move(*listed) : std::vector<nvml::Gpu>{};
  }

  /// Adds to `list` what the management library knows about `gpu`. Matches by UUID, because CUDA and the management
  /// library number the devices differently.
  static void join(std::vector<DeviceInfo>& list, const nvml::Gpu& gpu) {
    for (auto& info : list)
      if (info.uuid == gpu.uuid)
        info.numa_node = gpu.numa_node;
  }

  /// Adds the devices that CUDA hides because of MIG: it shows a process one MIG device, and no other GPU beside it.
  void add_hidden(std::vector<DeviceInfo>& list, const std::vector<nvml::Gpu>& gpus) const {
    const auto divided = [](const nvml::Gpu& gpu) { return gpu.mig; };
    if (std::none_of(gpus.begin(), gpus.end(), divided))
      return;
    for (const auto& gpu : gpus) {
      if (!gpu.mig)
        add_hidden(list, gpu);
      for (const auto& slice : gpu.slices)
        add_hidden(list, slice);
    }
  }

  void add_hidden(std::vector<DeviceInfo>& list, const nvml::Gpu& gpu) const {
    const auto is_it = [&gpu](const DeviceInfo& info) { return info.uuid == gpu.uuid; };
    if (!is_allowed(gpu.uuid) || std::any_of(list.begin(), list.end(), is_it))
      return;
    DeviceInfo info;
    info.kind = DeviceKind::cuda;
    info.ordinal = -1;
    for (const auto& known : list)
      info.index = std::max(info.index, known.index + 1);
    info.name = gpu.name;
    info.accelerator_type = accelerator_type_of(gpu.name);
    info.uuid = gpu.uuid;
    info.memory_bytes = leasable_memory(gpu.memory_bytes);
    info.units = gpu.sms;
    info.numa_node = gpu.numa_node;
    list.push_back(std::move(info));
  }

  /// Returns whether CUDA_VISIBLE_DEVICES lets processes use the device; false for a list of indices, from which this
  /// cannot be told.
  bool is_allowed(const std::string& uuid) const {
    if (!options_.visible_devices)
      return true;
    std::istringstream entries{*options_.visible_devices};
    for (std::string entry; std::getline(entries, entry, ',');) {
      entry.erase(0, entry.find_first_not_of(' '));
      entry.erase(entry.find_last_not_of(' ') + 1);
      if (entry.size() > 4 && uuid.starts_with(entry))
        return true;
    }
    return false;
  }

  /// Returns the indices that CUDA_VISIBLE_DEVICES names if they are as many different ones as there are devices, else
  /// none.
  std::vector<int> node_indices(std::size_t count) const {
    if (!options_.visible_devices)
      return {};
    std::vector<int> indices;
    const char* at = options_.visible_devices->data();
    const char* end = at + options_.visible_devices->size();
    while (at != end && indices.size() < count) {
      while (at != end && (*at == ' ' || *at == ','))
        ++at;
      int index = 0;
      const auto [stop, error] = std::from_chars(at, end, index);
      if (error != std::errc{} || index < 0 || (stop != end && *stop != ',' && *stop != ' '))
        return {};
      indices.push_back(index);
      at = stop;
    }
    const std::set<int> different{indices.begin(), indices.end()};
    return different.size() == count && indices.size() == count ? indices : std::vector<int>{};
  }

  /// Takes the index `wish`, or the next higher one that is free.
  int take_index(int wish) {
    while (!indices_.insert(wish).second)
      ++wish;
    return wish;
  }

  Result<void> push(std::shared_ptr<Device> device) {
    if (devices_.size() == limits::devices_per_node)
      return fail(Errc::invalid_argument, fmt::format("a node offers at most {} devices", limits::devices_per_node));
    devices_.push_back(std::move(device));
    return {};
  }

  Result<void> add_cuda(DeviceInfo info) {
    if (!taken_.insert(info.uuid).second)
      return fail(
          Errc::invalid_argument,
          fmt::format("CUDA device {} ({}) is offered twice; name it in one specification", info.ordinal, info.uuid));
    info.index = take_index(info.index);
    if (info.ordinal < 0) {
      auto reason = fmt::format("CUDA device {} ({}) is visible to a process of its own only; use it through a cluster "
                                "of processes, or name it in CUDA_VISIBLE_DEVICES",
                                info.index, info.uuid);
      return push(std::make_shared<AbsentDevice>(std::move(info), std::move(reason)));
    }
    GPUACTORS_LET(device, module_->device(info));
    return push(std::move(device));
  }

  Result<void> add_all() {
    const auto& list = cuda();
    if (!list)
      return fail(list.error());
    if (list->empty())
      return fail(Errc::unsupported, "no CUDA device is visible; host:1 offers this machine's cores instead");
    for (const auto& info : *list)
      GPUACTORS_TRY(add_cuda(info));
    return {};
  }

  Result<void> add_named(const std::vector<std::string>& uuids) {
    const auto& list = cuda();
    if (!list)
      return fail(list.error());
    for (const auto& uuid : uuids) {
      std::vector<DeviceInfo> found;
      std::vector<std::string> known;
      for (const auto& info : *list) {
        known.push_back(info.uuid);
        if (info.uuid.starts_with(uuid))
          found.push_back(info);
      }
      if (found.size() != 1)
        return fail(found.empty() ? Errc::not_found : Errc::invalid_argument,
                    fmt::format("{} CUDA devices are named {}; visible are: {}", found.empty() ? "no" : "several", uuid,
                                known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
      GPUACTORS_TRY(add_cuda(found[0]));
    }
    return {};
  }

  Result<void> add_count(int count) {
    const auto& list = cuda();
    const auto have = list ? std::min(count, static_cast<int>(list->size())) : 0;
    for (int i = 0; i < have; ++i)
      GPUACTORS_TRY(add_cuda((*list)[static_cast<std::size_t>(i)]));
    for (int i = have; i < count; ++i) {
      DeviceInfo info;
      info.kind = DeviceKind::cuda;
      info.memory_bytes = have > 0 ? (*list)[0].memory_bytes : absent_memory_bytes;
      info.accelerator_type = have > 0 ? (*list)[0].accelerator_type : "cuda";
      info.units = have > 0 ? (*list)[0].units : 1;
      info.name = "absent CUDA device";
      info.ordinal = i;
      info.index = take_index(i);
      auto reason = fmt::format("CUDA device {} does not exist: {} were offered (cuda*{}) and {} found", info.index,
                                count, count, have);
      if (!list)
        reason += fmt::format(" ({})", list.error().message());
      GPUACTORS_TRY(push(std::make_shared<AbsentDevice>(std::move(info), std::move(reason))));
    }
    return {};
  }

  Result<void> add_host(const DeviceOffer& spec) {
    const auto threads = options_.hardware_threads > 0 ? options_.hardware_threads : static_cast<int>(usable_cpus());
    const auto machine = options_.machine_memory_bytes > 0 ? options_.machine_memory_bytes : machine_memory();
    const auto count = static_cast<std::uint64_t>(host_count_);
    for (int i = 0; i < spec.count; ++i) {
      DeviceInfo info;
      info.kind = DeviceKind::host;
      info.index = take_index(next_host_++);
      info.ordinal = info.index;
      info.name = "host";
      info.accelerator_type = spec.accelerator_type;
      info.uuid = fmt::format("host-{}-{}", options_.node_name, info.index);
      // All host devices together get half of the machine's memory, which leaves room for the programs themselves.
      info.memory_bytes = spec.memory_bytes > 0 ? spec.memory_bytes : std::max<std::uint64_t>(machine / 2 / count, 1);
      info.units = std::max(1, threads / host_count_);
      GPUACTORS_TRY(push(std::make_shared<host::HostDevice>(std::move(info))));
    }
    return {};
  }

  const DiscoveryOptions& options_;
  int host_count_ = 0;
  int next_host_ = 0;
  CudaModule* module_ = nullptr;
  std::optional<Result<std::vector<DeviceInfo>>> cuda_;
  std::set<int> indices_;
  /// UUIDs of the CUDA devices that are offered already.
  std::set<std::string> taken_;
  Devices devices_;
};

} // namespace

Result<Devices> open_devices(const std::vector<DeviceInfo>& described, const DiscoveryOptions& options) {
  Maker maker{{}, options};
  for (const auto& info : described)
    GPUACTORS_TRY(maker.add_described(info));
  return maker.take();
}

std::vector<int> distances_between(const std::vector<std::string>& uuids) {
  auto monitor = nvml::Monitor::get();
  if (!monitor || uuids.size() > most_distant)
    return {};
  const auto size = uuids.size();
  // Host devices, and GPUs that do not exist, have the largest distance to every other device.
  std::vector<int> result(size * size, limits::distance);
  bool known = false;
  for (std::size_t a = 0; a < size; ++a) {
    result[a * size + a] = 0;
    for (std::size_t b = 0; b < a; ++b)
      if (auto distance = (*monitor)->distance(uuids[a], uuids[b])) {
        result[a * size + b] = result[b * size + a] = *distance;
        known = true;
      }
  }
  return known ? result : std::vector<int>{};
}

DiscoveryOptions discovery_options(std::string node_name) {
  DiscoveryOptions options;
  options.node_name = std::move(node_name);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    options.visible_devices = visible;
  return options;
}

Result<Devices> make_devices(const std::vector<DeviceOffer>& specs, const DiscoveryOptions& options) {
  auto chosen = specs;
  if (chosen.empty())
    chosen.emplace_back();
  Maker maker{chosen, options};
  if (specs.empty()) {
    const auto& list = maker.cuda();
    // Without a driver that can be used, or without a device, nobody expects a GPU. Devices whose driver fails, or is
    // not ready, are not left out silently.
    if (!list && list.error().code() != Errc::unsupported && list.error().code() != Errc::device_lost)
      return fail(list.error().code(),
                  fmt::format("{}; name the devices to go on without GPUs, as host:1", list.error().message()));
    if (list && !list->empty())
      chosen[0].form = DeviceOffer::Form::cuda_all;
  }
  for (const auto& spec : chosen)
    GPUACTORS_TRY(maker.add(spec));
  return maker.take();
}

} // namespace gpuactors
