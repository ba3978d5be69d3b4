// The devices at hand, rows of a running program, and the helpers around a cluster.
#include "tour.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <thread>

namespace tour {

using gpuactors::Cluster;
using gpuactors::Result;

// -- Machine --------------------------------------------------------------------------------------

Result<Machine> Machine::look(const std::string& spec) {
  GPUACTORS_LET(cluster, open(spec));
  GPUACTORS_LET(state, cluster.state());
  Machine machine;
  for (const auto& device : state.devices())
    machine.devices_.push_back(device.device());
  if (!machine.devices_.empty())
    machine.spec_ = spec.empty() ? machine.exactly(machine.devices_.size()) : spec;
  return machine;
}

std::string Machine::exactly(std::size_t count) const {
  if (count > devices_.size())
    return fmt::format("host:{}", count);
  std::string spec;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& device = devices_[i];
    if (device.kind() == "cuda" && device.uuid().empty())
      return fmt::format("cuda*{}", count);
    if (device.kind() == "cuda")
      spec += fmt::format("cuda:{} ", device.uuid());
    else
      spec += fmt::format("host:1x{}@{} ", device.memory_bytes(), device.accelerator_type());
  }
  return spec;
}

std::size_t Machine::cuda_count() const noexcept {
  const auto is_cuda = [](const auto& device) { return device.kind() == "cuda"; };
  return static_cast<std::size_t>(std::count_if(devices_.begin(), devices_.end(), is_cuda));
}

std::string Machine::cuda_type() const {
  for (const auto& device : devices_)
    if (device.kind() == "cuda")
      return device.accelerator_type();
  return {};
}

bool Machine::has_cuda() const noexcept {
  return cuda_count() > 0;
}

// -- Tour -----------------------------------------------------------------------------------------

Row& Tour::row(std::string title) {
  close();
  return rows_.emplace_back(program_, std::move(title));
}

Row& Tour::last_row() {
  return rows_.size() == first_ ? rows_.emplace_back(program_, "") : rows_.back();
}

void Tour::close() {
  if (rows_.size() > first_)
    rows_.back().close();
}

// -- helpers --------------------------------------------------------------------------------------

namespace {

/// The running cluster that is used, if any, and the first of its decisions that belongs to the program which runs.
std::optional<gpuactors::ConnectOptions> connection;
std::uint64_t first_event = 1;

/// Bytes of the devices, largest first.
Result<std::vector<std::uint64_t>> memory_of(Cluster& cluster) {
  GPUACTORS_LET(state, cluster.state());
  std::vector<std::uint64_t> result;
  for (const auto& device : state.devices())
    result.push_back(device.device().memory_bytes());
  std::sort(result.rbegin(), result.rend());
  return result;
}

} // namespace

Result<Cluster> embed(const std::string& devices) {
  gpuactors::EmbedOptions options;
  options.devices = devices;
  return Cluster::embed(std::move(options));
}

void use_cluster(gpuactors::ConnectOptions options) {
  connection = std::move(options);
}

Result<Cluster> open(const std::string& devices) {
  first_event = 1;
  if (!connection)
    return embed(devices);
  GPUACTORS_LET(cluster, Cluster::connect(*connection));
  if (!devices.empty()) {
    GPUACTORS_LET(sample, embed(devices));
    GPUACTORS_LET(wanted, memory_of(sample));
    GPUACTORS_LET(there, memory_of(cluster));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (i >= there.size() || there[i] < wanted[i])
        return gpuactors::fail(gpuactors::Errc::infeasible,
                               fmt::format("the cluster does not have the devices of {}", devices));
  }
  GPUACTORS_LET(state, cluster.state({.events_from = 1}));
  if (state.events_size() > 0)
    first_event = state.events(state.events_size() - 1).sequence() + 1;
  return std::move(cluster);
}

Result<gpuactors::LocalCluster> start_processes(gpuactors::LocalNode node) {
  gpuactors::LocalClusterOptions options;
  // The driver of a GPU takes seconds to start, and may keep all threads of its process meanwhile.
  if (!node.devices.starts_with("host"))
    options.link_timeout *= 2;
  options.on_line = [](std::string_view process, std::string_view line) {
    std::fputs(fmt::format("gpuactors-tour, {}: {}\n", process, line).c_str(), stderr);
  };
  node.name = "local";
  options.nodes = {std::move(node)};
  return gpuactors::LocalCluster::start(std::move(options));
}

Result<OneDevice> open_one(const Tour& tour, const std::string& device) {
  const auto& machine = tour.machine();
  GPUACTORS_LET(cluster, open(connection || device.empty() ? machine.exactly(1) : device));
  GPUACTORS_LET(group, cluster.create_group({{.gpus = 1}}));
  return OneDevice{std::move(cluster), std::move(group)};
}

bool wait_until_free(Cluster& cluster) {
  const Stopwatch watch;
  while (watch.seconds() < 10) {
    if (const auto state = cluster.state(); state && state->leases().empty())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

std::string to_string(const Place& place) {
  if (place.ids().empty())
    return fmt::format("node {}, no device", place.node());
  return fmt::format("{} {}, share {}", place.kind(), fmt::join(place.ids(), ","), place.share());
}

namespace {

std::int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

} // namespace

Place place_of(gpuactors::HolderContext& holder) {
  Place place;
  place.set_node(holder.lease().node);
  place.set_pid(static_cast<std::uint32_t>(getpid()));
  for (const auto* name : {"CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES"})
    if (const char* value = std::getenv(name))
      (*place.mutable_environment())[name] = value;
  for (const auto& device : holder.lease().devices) {
    place.add_ids(device.index);
    place.set_share(device.share.to_double());
    place.set_memory_bytes(device.memory_bytes);
  }
  if (holder.gpu_count() > 0)
    place.set_kind(std::string{gpuactors::to_string(holder.gpu().device().kind)});
  return place;
}

Span SpanTimer::end() const {
  Span span;
  span.set_begin_ns(nanoseconds(begin_));
  span.set_end_ns(nanoseconds(std::chrono::steady_clock::now()));
  return span;
}

int most_at_once(const std::vector<Span>& spans) {
  int most = 0;
  for (const auto& at : spans) {
    // The largest number is reached at the begin of some span.
    const auto holds = [&](const Span& span) {
      return span.begin_ns() <= at.begin_ns() && at.begin_ns() < span.end_ns();
    };
    most = std::max(most, static_cast<int>(std::count_if(spans.begin(), spans.end(), holds)));
  }
  return most;
}

// -- usage ----------------------------------------------------------------------------------------

Result<Usage> usage_of(Cluster& cluster) {
  GPUACTORS_LET(state, cluster.state({.events_from = first_event}));
  Usage usage;
  struct Held {
    int leases = 0;
    std::int64_t units = 0;
  };
  std::map<std::pair<std::string, int>, Held> devices;
  std::set<std::uint64_t> waiting;
  int releases = 0;
  for (const auto& event : state.events()) {
    const auto granted = event.kind() == "granted";
    if (event.kind() == "pending")
      waiting.insert(event.request());
    const auto ended = (event.kind() == "released" || event.kind() == "lost") && event.has_lease();
    if (!granted && !ended)
      continue;
    for (const auto& grant : event.lease().devices()) {
      auto& held = devices[{event.lease().node(), grant.index()}];
      held.leases += granted ? 1 : -1;
      held.units += granted ? grant.share_units() : -grant.share_units();
      usage.most_leases = std::max(usage.most_leases, held.leases);
      usage.most_units = std::max(usage.most_units, held.units);
    }
    releases += ended ? 1 : 0;
    if (granted) {
      usage.grants_after_waiting += static_cast<int>(waiting.erase(event.request()));
      usage.releases_before_last_grant = releases;
    }
  }
  return usage;
}

} // namespace tour
