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

std::uint64_t ran(const v1::CallStats& stats) {
  return std::accumulate(stats.ran().begin(), stats.ran().end(), std::uint64_t{0});
}

std::optional<double> mean_seconds(const v1::CallStats& stats) {
  const auto count = ran(stats);
  if (count == 0)
    return std::nullopt;
  return seconds_of(stats) / static_cast<double>(count);
}

/// Returns the bound up to which so many of a hundred calls took; nothing if they took more than all bounds, or if none
/// ran.
std::optional<double> bound_of(const v1::CallStats& stats, std::uint64_t percent) {
  constexpr std::uint64_t hundred = 100;
  const auto count = ran(stats);
  std::uint64_t within = 0;
  for (std::size_t i = 0; i < limits::call_seconds.size() && i < static_cast<std::size_t>(stats.ran_size()); ++i) {
    within += stats.ran(static_cast<int>(i));
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

std::string bound_in_words(const v1::CallStats& stats, std::uint64_t percent) {
  if (ran(stats) == 0)
    return "";
  if (const auto bound = bound_of(stats, percent))
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
  Table table{
      {"ACTOR", "METHOD OR TASK", "NODE", ">RAN", ">FAILED", ">LATE", ">MEAN", ">HALF TOOK", ">99 OF 100 TOOK"}};
  for (const auto& [actor, node, stats] : rows_of(state)) {
    const auto mean = mean_seconds(*stats);
    table.add({actor != nullptr ? name_of(*actor) : "", stats->name(), node, std::to_string(ran(*stats)),
               std::to_string(stats->failed()), std::to_string(stats->late()), mean ? in_words(*mean) : "",
               bound_in_words(*stats, half), bound_in_words(*stats, nearly_all)});
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
    object["ran"] = json_of(ran(*stats));
    object["failed"] = json_of(stats->failed());
    object["late"] = json_of(stats->late());
    object["seconds"] = seconds_of(*stats);
    object["mean_seconds"] = or_null(mean_seconds(*stats));
    object["p50_seconds"] = or_null(bound_of(*stats, half));
    object["p99_seconds"] = or_null(bound_of(*stats, nearly_all));
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
       "started, up to a second old. The times are those from a call's turn to its answer, without the wait for its "
       "turn; a streamed reply takes as long as its reader. HALF TOOK and 99 OF 100 TOOK are bounds. FAILED were "
       "answered with an error; LATE did not run, because their deadline passed before their turn came.\n\n"
       "gpuactors metrics has the same for Prometheus.\n\n"
       "Examples:\n"
       "  gpuactors calls --broker 127.0.0.1:7711\n"
       "  gpuactors calls --broker 127.0.0.1:7711 --json | jq '.[] | select(.failed != \"0\")'",
       ClusterOptions::Kinds::running, print_calls, json_calls});
}

} // namespace gpuactors::cli
