// Builds the trace: events become slices, slices get lanes, lanes become tracks.
#include "trace.hpp"

#include "utc.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::cli {

namespace {

constexpr double nanoseconds_in_a_microsecond = 1e3;

/// The tracks of one device are numbered from a multiple of this on.
constexpr int lanes_of_a_device = 1'000;

/// A lease on one device, or on no device (-1), over a period of time.
struct TraceSlice {
  v1::Lease lease;
  int device = -1;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// How the lease ended: "released" or "lost"; "held" if it has not ended.
  std::string ended;
  std::string reason;
  /// Whether the grant is missing from the events.
  bool before_log = false;
};

/// The history of the leases, as far as the events tell.
class LeaseHistory {
public:
  LeaseHistory(const v1::ClusterState& state, std::int64_t now) : now_(now) {
    first_ = state.events().empty() ? now : state.events(0).unix_ns();
    for (const auto& event : state.events())
      if (event.has_lease())
        read(event);
    for (const auto& lease : state.leases())
      if (open_.count(lease.id()) == 0 && ended_.count(lease.id()) == 0)
        open_[lease.id()] = {lease, -1, first_, 0, "", "", true};
    for (auto& [id, slice] : open_)
      end(std::move(slice), now_, "held", "");
  }

  /// Returns the slices by node and device, in the order of their beginnings.
  [[nodiscard]] std::map<std::pair<std::string, int>, std::vector<TraceSlice>> take_slices() {
    for (auto& [place, slices] : slices_)
      std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return std::move(slices_);
  }

  /// Returns the beginning of the trace, in nanoseconds since 1970.
  [[nodiscard]] std::int64_t first() const noexcept {
    return first_;
  }

private:
  void read(const v1::Event& event) {
    const auto& lease = event.lease();
    const bool known_end = ended_.count(lease.id()) != 0;
    if (event.kind() == "released" || event.kind() == "lost") {
      // What was lost is also released, when its node says that nothing of it runs any more.
      if (known_end)
        return;
      ended_.insert(lease.id());
      auto node = open_.extract(lease.id());
      end(node.empty() ? TraceSlice{lease, -1, first_, 0, "", "", true} : std::move(node.mapped()), event.unix_ns(),
          event.kind(), event.reason());
    } else if (!known_end) {
      // The event is the grant; or, if the broker no longer has that, an adoption or a spawn.
      open_.try_emplace(lease.id(), TraceSlice{lease, -1, event.kind() == "granted" ? event.unix_ns() : first_, 0, "",
                                               "", event.kind() != "granted"});
    } else if (event.kind() == "adopted") {
      // It was lost with its node, which has come back with it.
      ended_.erase(lease.id());
      open_.try_emplace(lease.id(), TraceSlice{lease, -1, event.unix_ns(), 0, "", "", false});
    }
  }

  void end(TraceSlice slice, std::int64_t when, const std::string& how, const std::string& reason) {
    slice.end = std::max(when, slice.begin);
    slice.ended = how;
    slice.reason = reason;
    if (slice.lease.devices().empty())
      slices_[{slice.lease.node(), -1}].push_back(slice);
    for (const auto& device : slice.lease.devices()) {
      slice.device = device.index();
      slices_[{slice.lease.node(), device.index()}].push_back(slice);
    }
  }

  std::int64_t now_;
  std::int64_t first_ = 0;
  std::map<std::uint64_t, TraceSlice> open_;
  /// Leases whose end was told.
  std::set<std::uint64_t> ended_;
  std::map<std::pair<std::string, int>, std::vector<TraceSlice>> slices_;
};

/// Returns the metadata event that names a process or a track.
Json named(const char* what, int process, int track, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

Json event_of(const TraceSlice& slice, int process, int track, std::int64_t first) {
  const auto& lease = slice.lease;
  auto arguments = Json::object({{"lease", json_of(lease.id())}, {"ended", slice.ended}});
  for (const auto& device : lease.devices())
    if (device.index() == slice.device) {
      arguments["share"] = Share{device.share_units()}.to_double();
      arguments["memory_bytes"] = json_of(device.memory_bytes());
    }
  if (!slice.reason.empty())
    arguments["reason"] = slice.reason;
  if (slice.before_log)
    arguments["began"] = "before the first event that the broker has";
  return {{"ph", "X"},
          {"name", lease.name().empty() ? "lease " + std::to_string(lease.id()) : lease.name()},
          {"cat", "lease"},
          {"pid", process},
          {"tid", track},
          {"ts", static_cast<double>(slice.begin - first) / nanoseconds_in_a_microsecond},
          {"dur", static_cast<double>(slice.end - slice.begin) / nanoseconds_in_a_microsecond},
          {"args", std::move(arguments)}};
}

/// Puts slices that overlap on tracks below each other.
void add_tracks(Json& events, const std::vector<TraceSlice>& slices, int device, int process, std::int64_t first) {
  std::vector<std::int64_t> ends;
  for (const auto& slice : slices) {
    const auto free = std::find_if(ends.begin(), ends.end(), [&](std::int64_t end) { return end <= slice.begin; });
    const auto lane = static_cast<int>(free - ends.begin());
    const int track = (device + 1) * lanes_of_a_device + lane + 1;
    if (free == ends.end()) {
      ends.push_back(slice.end);
      auto name = device < 0 ? std::string{"no device"} : fmt::format("device {}", device);
      events.push_back(named("thread_name", process, track, lane == 0 ? name : fmt::format("{} ({})", name, lane + 1)));
      events.push_back({{"ph", "M"},
                        {"name", "thread_sort_index"},
                        {"pid", process},
                        {"tid", track},
                        {"args", {{"sort_index", track}}}});
    } else {
      *free = slice.end;
    }
    events.push_back(event_of(slice, process, track, first));
  }
}

/// Adds instants for lost leases and for events about no lease: deaths, nodes that come and go, requests that wait or
/// are refused.
void add_instants(Json& events, const v1::ClusterState& state, std::int64_t first) {
  constexpr int broker = 1;
  events.push_back(named("process_name", broker, 0, "broker"));
  events.push_back(named("thread_name", broker, 1, "events"));
  for (const auto& event : state.events()) {
    if (event.has_lease() && event.kind() != "lost")
      continue;
    events.push_back({{"ph", "i"},
                      {"name", event.name().empty() ? event.kind() : event.kind() + " " + event.name()},
                      {"cat", "event"},
                      {"s", "t"},
                      {"pid", broker},
                      {"tid", 1},
                      {"ts", static_cast<double>(event.unix_ns() - first) / nanoseconds_in_a_microsecond},
                      {"args", {{"sequence", event.sequence()}, {"reason", event.reason()}}}});
  }
}

} // namespace

Json trace_of(const v1::ClusterState& state, std::int64_t now_unix_ns) {
  LeaseHistory history{state, now_unix_ns};
  const auto first = history.first();
  auto events = Json::array();
  add_instants(events, state, first);
  int process = 1;
  std::string node;
  for (const auto& [place, slices] : history.take_slices()) {
    if (process == 1 || place.first != node) {
      node = place.first;
      events.push_back(named("process_name", ++process, 0, "node " + node));
    }
    add_tracks(events, slices, place.second, process, first);
  }
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ms"},
          {"otherData",
           {{"begin", utc_for_programs(from_unix_ns(first))},
            {"end", utc_for_programs(from_unix_ns(std::max(now_unix_ns, first)))},
            {"release", state.release()}}}};
}

} // namespace gpuactors::cli
