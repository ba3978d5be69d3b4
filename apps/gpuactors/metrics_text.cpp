// The families of metrics. Dashboards and alerts depend on their names and labels: change none, only add.
#include "metrics_text.hpp"

#include "call_metrics.hpp"
#include "incomplete.hpp"
#include "published_metrics.hpp"
#include "words.hpp"

#include <gpuactors/base/event_kind.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>

namespace gpuactors::cli {

namespace {

constexpr double nanoseconds_in_a_second = 1e9;

/// Escapes a label's value, or (without quotes) a help text, so that it fits on one line.
std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text)
    if (c == '\\')
      result += "\\\\";
    else if (c == '\n')
      result += "\\n";
    else if (c == '"' && quotes)
      result += "\\\"";
    else
      result += c;
  return result;
}

/// Formats a number; without a fraction if it is whole, up to 2^53, below which a double has all whole numbers.
std::string number(double value) {
  constexpr double all_whole = 9007199254740992.0;
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "+Inf" : "-Inf";
  if (std::floor(value) == value && std::abs(value) <= all_whole)
    return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{}", value);
}

/// Returns a zero for each possible state, so that alerts find a sample even if no object is in that state.
std::map<std::string, double> counts_of(std::initializer_list<const char*> states) {
  std::map<std::string, double> counts;
  for (const auto* state : states)
    counts[state] = 0;
  return counts;
}

void write_counts(MetricsWriter& out, std::string_view label, const std::map<std::string, double>& counts) {
  for (const auto& [name, count] : counts)
    out.sample({{label, name}}, count);
}

void write_broker(MetricsWriter& out, const v1::ClusterState& state) {
  out.family("gpuactors_broker_info", "gauge", "The release that the broker runs, as a label.");
  out.sample({{"release", state.release()}}, 1);
  out.family("gpuactors_broker_start_time_seconds", "gauge", "When the broker started, in seconds since 1970.");
  out.sample({}, static_cast<double>(state.started_unix_ns()) / nanoseconds_in_a_second);
  out.family("gpuactors_broker_takeovers", "gauge", "How often a broker that stood by has taken over the cluster.");
  out.sample({}, static_cast<double>(state.term()));
  out.family("gpuactors_state_incomplete", "gauge",
             "1 where the broker's answer had no room for all entries: then what is counted here of them is too few.");
  for (const auto* field : {"nodes", "devices", "leases", "actors", "groups", "clients", "queue"})
    out.sample({{"field", field}}, is_whole(state, field) ? 0 : 1);
}

void write_standby(MetricsWriter& out, const v1::ClusterState& state) {
  out.family("gpuactors_standby_state", "gauge",
             "1 for the state that the broker that stands by is in, 0 for others; nothing if there was none.");
  if (state.has_standby()) {
    auto states = counts_of({"following", "copying", "away"});
    ++states[state.standby().state()];
    for (const auto& [name, count] : states)
      out.sample({{"address", state.standby().address()}, {"state", name}}, count);
  }
  out.family("gpuactors_standby_silent_seconds", "gauge",
             "How long ago the broker that stands by has asked for what changes: its copy is not newer.");
  if (state.has_standby())
    out.sample({{"address", state.standby().address()}},
               static_cast<double>(state.standby().silent_ns()) / nanoseconds_in_a_second);
}

void write_nodes(MetricsWriter& out, const v1::ClusterState& state) {
  auto counts = counts_of({"ok", "draining", "away"});
  for (const auto& node : state.nodes())
    ++counts[node.state()];
  out.family("gpuactors_nodes", "gauge", "Nodes by state.");
  write_counts(out, "state", counts);
  out.family("gpuactors_node_info", "gauge", "A node's address and release, as labels.");
  for (const auto& entry : state.nodes())
    out.sample({{"node", entry.node().name()}, {"address", entry.node().address()}, {"release", entry.release()}}, 1);
  out.family("gpuactors_node_state", "gauge", "1 for the state that the node is in, 0 for others.");
  for (const auto& entry : state.nodes()) {
    auto states = counts_of({"ok", "draining", "away"});
    ++states[entry.state()];
    for (const auto& [name, count] : states)
      out.sample({{"node", entry.node().name()}, {"state", name}}, count);
  }
  out.family("gpuactors_certificate_end_timestamp_seconds", "gauge",
             "When the certificate of the broker or of a node ends, in seconds since 1970.");
  if (state.has_certificate())
    out.sample({{"process", "broker"}, {"node", ""}}, static_cast<double>(state.certificate().until_unix_s()));
  for (const auto& entry : state.nodes())
    if (entry.has_certificate())
      out.sample({{"process", "node"}, {"node", entry.node().name()}},
                 static_cast<double>(entry.certificate().until_unix_s()));
  out.family("gpuactors_node_host_memory_bytes", "gauge", "Host memory that a node offers.");
  for (const auto& entry : state.nodes())
    out.sample({{"node", entry.node().name()}}, static_cast<double>(host_memory_in(entry.node().resource_units())));
  out.family("gpuactors_node_free_host_memory_bytes", "gauge", "Host memory of a node that no lease or group has.");
  for (const auto& entry : state.nodes())
    out.sample({{"node", entry.node().name()}}, static_cast<double>(entry.free_host_memory_bytes()));
}

/// Writes a family with a sample for each device that has a value.
template <class Value>
void write_of_devices(MetricsWriter& out, const v1::ClusterState& state, std::string_view name, std::string_view help,
                      Value value) {
  out.family(name, "gauge", help);
  for (const auto& device : state.devices())
    if (const std::optional<double> sample = value(device))
      out.sample({{"node", device.node()}, {"device", std::to_string(device.device().index())}}, *sample);
}

void write_devices(MetricsWriter& out, const v1::ClusterState& state) {
  using Device = const v1::DeviceState&;
  using Value = std::optional<double>;
  out.family("gpuactors_device_info", "gauge", "What a device is, as labels.");
  for (const auto& entry : state.devices())
    out.sample({{"node", entry.node()},
                {"device", std::to_string(entry.device().index())},
                {"kind", entry.device().kind()},
                {"accelerator_type", entry.device().accelerator_type()},
                {"uuid", entry.device().uuid()},
                {"name", entry.device().name()}},
               1);
  out.family("gpuactors_device_state", "gauge", "1 for the state that the device is in, 0 for others.");
  for (const auto& entry : state.devices()) {
    auto states = counts_of({"ok", "failed"});
    ++states[entry.state()];
    for (const auto& [name, count] : states)
      out.sample({{"node", entry.node()}, {"device", std::to_string(entry.device().index())}, {"state", name}}, count);
  }
  write_of_devices(out, state, "gpuactors_device_free_share", "How much of the device is not leased, of 1.",
                   [](Device device) -> Value { return Share{device.free_units()}.to_double(); });
  write_of_devices(out, state, "gpuactors_device_memory_bytes", "Memory of the device that leases may hold in all.",
                   [](Device device) -> Value { return static_cast<double>(device.device().memory_bytes()); });
  write_of_devices(out, state, "gpuactors_device_free_memory_bytes", "Memory of the device that is not leased.",
                   [](Device device) -> Value { return static_cast<double>(device.free_memory_bytes()); });
  write_of_devices(out, state, "gpuactors_device_used_memory_bytes",
                   "Memory that all processes on the device use, ours and others, where its library says so.",
                   [](Device device) -> Value {
                     return device.has_use() ? Value{static_cast<double>(device.use().memory_bytes())} : Value{};
                   });
  write_of_devices(out, state, "gpuactors_device_busy_percent",
                   "Of the last moments, in how many something was computed, where the device's library says so.",
                   [](Device device) -> Value {
                     const bool known = device.has_use() && device.use().percent() >= 0;
                     return known ? Value{static_cast<double>(device.use().percent())} : Value{};
                   });
  write_of_devices(out, state, "gpuactors_device_leases", "Leases on the device.",
                   [](Device device) -> Value { return static_cast<double>(device.leases_size()); });
}

/// Writes a family with a sample for each actor that has a name.
template <class Value>
void write_of_actors(MetricsWriter& out, const v1::ClusterState& state, std::string_view name, std::string_view type,
                     std::string_view help, Value value) {
  out.family(name, type, help);
  for (const auto& actor : state.actors())
    if (!actor.name().empty())
      out.sample({{"name_space", actor.name_space()}, {"actor", actor.name()}}, static_cast<double>(value(actor)));
}

void write_actors(MetricsWriter& out, const v1::ClusterState& state) {
  using Actor = const v1::ActorInfo&;
  auto counts = counts_of({"returning", "restarting", "waiting", "starting", "alive", "stopping"});
  for (const auto& actor : state.actors())
    ++counts[actor.state()];
  out.family("gpuactors_actors", "gauge", "Actors by state.");
  write_counts(out, "state", counts);
  out.family("gpuactors_actor_info", "gauge", "What an actor is and where, as labels; of actors with a name.");
  for (const auto& actor : state.actors())
    if (!actor.name().empty())
      out.sample({{"name_space", actor.name_space()},
                  {"actor", actor.name()},
                  {"type", actor.type()},
                  {"node", actor.lease().node()}},
                 1);
  write_of_actors(out, state, "gpuactors_actor_up", "gauge", "Whether the actor is alive.",
                  [](Actor actor) { return actor.state() == "alive" ? 1 : 0; });
  write_of_actors(out, state, "gpuactors_actor_restarts_total", "counter", "How often the actor was restarted.",
                  [](Actor actor) { return actor.restarts(); });
  write_of_actors(out, state, "gpuactors_actor_memory_used_bytes", "gauge",
                  "What the actor holds of the memory of its devices.",
                  [](Actor actor) { return actor.memory_used_bytes(); });
  write_of_actors(out, state, "gpuactors_actor_calls_total", "counter", "Calls that the actor has served in this life.",
                  [](Actor actor) { return actor.calls(); });
}

void write_work(MetricsWriter& out, const v1::ClusterState& state) {
  out.family("gpuactors_leases", "gauge", "Leases that are held.");
  out.sample({}, state.leases_size());
  auto groups = counts_of({"waiting", "placed", "ending"});
  for (const auto& group : state.groups())
    ++groups[group.state()];
  out.family("gpuactors_groups", "gauge", "Placement groups by state.");
  write_counts(out, "state", groups);
  out.family("gpuactors_queue_length", "gauge", "Requests that wait for resources.");
  out.sample({}, state.queue_size());
  std::map<std::int32_t, double> priorities;
  for (const auto& waiting : state.queue())
    ++priorities[waiting.priority()];
  out.family("gpuactors_queue_requests", "gauge", "Requests that wait for resources, by priority.");
  for (const auto& [priority, count] : priorities)
    out.sample({{"priority", std::to_string(priority)}}, count);
  auto clients = counts_of({"connected", "away"});
  for (const auto& client : state.clients())
    ++clients[client.away() ? "away" : "connected"];
  out.family("gpuactors_clients", "gauge", "Programs and workers that are connected, or away and have time to return.");
  write_counts(out, "state", clients);
}

void write_quotas(MetricsWriter& out, const v1::ClusterState& state) {
  out.family("gpuactors_quota_devices", "gauge",
             "How much of devices the leases and groups of an owner may hold together; the owner * is each without a "
             "quota of its own.");
  for (const auto& quota : state.quotas())
    if (quota.has_gpu_units())
      out.sample({{"owner", quota.owner()}}, Share{quota.gpu_units()}.to_double());
  out.family("gpuactors_quota_used_devices", "gauge", "How much of devices they hold.");
  // Nobody is called *: it holds nothing.
  for (const auto& quota : state.quotas())
    if (quota.owner() != each_client)
      out.sample({{"owner", quota.owner()}}, Share{quota.used_units()}.to_double());
}

void write_events(MetricsWriter& out, const v1::ClusterState& state) {
  // The broker's counters have the kinds of events, and beside them deaths as "KIND/ERROR".
  std::map<std::string, std::uint64_t> counters{state.counters().begin(), state.counters().end()};
  // What has not happened yet counts 0: an alert on an increase would miss the first event of a counter that starts at
  // 1.
  for (const auto kind : event_kind_names)
    counters.try_emplace(std::string{kind}, 0);
  for (const auto kind : {EventKind::died, EventKind::restarting})
    for (const auto code : all_errors())
      counters.try_emplace(fmt::format("{}/{}", to_string(kind), to_string(code)), 0);
  out.family("gpuactors_events_total", "counter", "Events of the broker by kind, since it started.");
  for (const auto& [what, count] : counters)
    if (what.find('/') == std::string::npos)
      out.sample({{"kind", what}}, static_cast<double>(count));
  out.family("gpuactors_actor_deaths_total", "counter",
             "Ends of actors' lives by error, since the broker started: died for good, or restarting.");
  for (const auto& [what, count] : counters)
    if (const auto slash = what.find('/'); slash != std::string::npos)
      out.sample({{"kind", what.substr(0, slash)}, {"error", what.substr(slash + 1)}}, static_cast<double>(count));
}

} // namespace

void MetricsWriter::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
}

void MetricsWriter::sample(const Labels& labels, double value) {
  write("", labels, value);
}

void MetricsWriter::histogram(const Labels& labels, const std::vector<double>& bounds,
                              const std::vector<std::uint64_t>& counts, double sum) {
  std::uint64_t within = 0;
  auto bucket = labels;
  bucket.emplace_back("le", "");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    within += counts[i];
    const auto bound = i < bounds.size() ? number(bounds[i]) : "+Inf";
    bucket.back().second = bound;
    write("_bucket", bucket, static_cast<double>(within));
  }
  write("_sum", labels, sum);
  write("_count", labels, static_cast<double>(within));
}

void MetricsWriter::write(std::string_view suffix, const Labels& labels, double value) {
  text_ += name_;
  text_ += suffix;
  const char* before = "{";
  for (const auto& [label, text] : labels)
    text_ += fmt::format("{}{}=\"{}\"", std::exchange(before, ","), label, escaped(text, true));
  text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", number(value));
}

std::string metrics_text(const v1::ClusterState& state) {
  MetricsWriter out;
  write_broker(out, state);
  write_standby(out, state);
  write_nodes(out, state);
  write_devices(out, state);
  write_actors(out, state);
  write_calls(out, state);
  write_work(out, state);
  write_quotas(out, state);
  write_events(out, state);
  write_published(out, state);
  return out.text();
}

} // namespace gpuactors::cli
