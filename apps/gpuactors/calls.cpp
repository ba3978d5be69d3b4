// gpuactors calls: how the calls of actors and the tasks went: how many, how long, how many failed.
#include "call_metrics.hpp"
#include "state_view.hpp"
#include "table.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::cli {

namespace {

/// A method of an actor, or a task on a node.
struct Row {
  /// Null for a task.
  const v1::ActorInfo* actor;
  std::string node;
  const v1::CallStats* stats;
};

std::vector<Row> rows_of(const v1::ClusterState& state) {
  std::vector<Row> rows;
  for (const auto& actor : state.actors())
    for (const auto& method : actor.methods())
      rows.push_back({&actor, actor.lease().node(), &method});
  for (const auto& node : state.nodes())
    for (const auto& task : node.tasks())
      rows.push_back({nullptr, node.node().name(), &task});
  return rows;
}

std::uint64_t how_many(const CallTimes& times) {
  return std::accumulate(times.counts.begin(), times.counts.end(), std::uint64_t{0});
}

std::optional<double> mean_of(const CallTimes& times) {
  const auto count = how_many(times);
  if (count == 0)
    return std::nullopt;
  return times.seconds / static_cast<double>(count);
}

/// Returns the bound up to which so many of a hundred times were; nothing if they were above all bounds, or if there is
/// none.
std::optional<double> bound_of(const CallTimes& times, std::uint64_t percent) {
  constexpr std::uint64_t hundred = 100;
  const auto count = how_many(times);
  std::uint64_t within = 0;
  for (std::size_t i = 0; i < limits::call_seconds.size() && i < static_cast<std::size_t>(times.counts.size()); ++i) {
    within += times.counts[static_cast<int>(i)];
    if (count > 0 && within * hundred >= count * percent)
      return limits::call_seconds[i];
  }
  return std::nullopt;
}

/// Returns a time with its unit and three digits: "12.3 ms".
std::string in_words(double seconds) {
  constexpr double thousand = 1e3;
  if (seconds >= 1)
    return fmt::format("{:.3g} s", seconds);
  if (seconds * thousand >= 1)
    return fmt::format("{:.3g} ms", seconds * thousand);
  return fmt::format("{:.3g} us", seconds * thousand * thousand);
}

std::string mean_in_words(const CallTimes& times) {
  const auto mean = mean_of(times);
  return mean ? in_words(*mean) : "";
}

std::string bound_in_words(const CallTimes& times, std::uint64_t percent) {
  if (how_many(times) == 0)
    return "";
  if (const auto bound = bound_of(times, percent))
    return "<= " + in_words(*bound);
  return "> " + in_words(limits::call_seconds.back());
}

std::string name_of(const v1::ActorInfo& actor) {
  if (actor.name().empty())
    return fmt::format("{} {}", actor.type(), actor.id());
  return full_name(actor);
}

constexpr std::uint64_t half = 50;
constexpr std::uint64_t nearly_all = 99;

void print_calls(const v1::ClusterState& state, std::ostream& out) {
  Table table{{"ACTOR", "METHOD OR TASK", "NODE", ">RAN", ">FAILED", ">LATE", ">MEAN", ">HALF TOOK", ">99 OF 100 TOOK",
               ">MEAN WAIT", ">99 OF 100 WAITED"}};
  for (const auto& [actor, node, stats] : rows_of(state)) {
    const auto times = took(*stats);
    const auto waits = waited(*stats);
    table.add({actor != nullptr ? name_of(*actor) : "", stats->name(), node, std::to_string(how_many(times)),
               std::to_string(stats->failed()), std::to_string(stats->late()), mean_in_words(times),
               bound_in_words(times, half), bound_in_words(times, nearly_all), mean_in_words(waits),
               bound_in_words(waits, nearly_all)});
  }
  table.print(out);
}

Json or_null(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_calls(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& [actor, node, stats] : rows_of(state)) {
    auto object = actor != nullptr ? Json{{"name", actor->name()},
                                          {"name_space", actor->name_space()},
                                          {"id", json_of(actor->id())},
                                          {"type", actor->type()},
                                          {"method", stats->name()}}
                                   : Json{{"task", stats->name()}};
    object["node"] = node;
    const auto times = took(*stats);
    const auto waits = waited(*stats);
    object["ran"] = json_of(how_many(times));
    object["failed"] = json_of(stats->failed());
    object["late"] = json_of(stats->late());
    object["seconds"] = times.seconds;
    object["mean_seconds"] = or_null(mean_of(times));
    object["p50_seconds"] = or_null(bound_of(times, half));
    object["p99_seconds"] = or_null(bound_of(times, nearly_all));
    object["waited_seconds"] = waits.seconds;
    object["mean_waited_seconds"] = or_null(mean_of(waits));
    object["p50_waited_seconds"] = or_null(bound_of(waits, half));
    object["p99_waited_seconds"] = or_null(bound_of(waits, nearly_all));
    list.push_back(std::move(object));
  }
  return list;
}

} // namespace

Command add_calls(CLI::App& program) {
  return add_state_view(
      program,
      {"calls", "How calls of actors and tasks went: how many, how long, how many failed",
       "Print one array with an object for each method and task",
       "Of each actor the methods that were called in this life, and of each node the tasks that it ran since it "
       "started, up to a second old. TOOK is the time from a call's turn to its answer; a streamed reply takes as long "
       "as its reader. WAITED is the time before, since the call was made, without the network's; that of a task has "
       "the wait for its place in it. HALF TOOK, 99 OF 100 TOOK and 99 OF 100 WAITED are bounds. FAILED were answered "
       "with an error; LATE did not run, because their deadline passed before their turn came.\n\n"
       "gpuactors metrics has the same for Prometheus.\n\n"
       "Examples:\n"
       "  gpuactors calls --broker 127.0.0.1:7711\n"
       "  gpuactors calls --broker 127.0.0.1:7711 --json | jq '.[] | select(.failed != \"0\")'",
       ClusterOptions::Kinds::running, print_calls, json_calls});
}

} // namespace gpuactors::cli
