// gpuactors calls: how the calls of actors and the tasks went: how many, how long, how many failed.
#include "call_times.hpp"
#include "state_view.hpp"
#include "table.hpp"
#include "words.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpuactors::cli {

namespace {

constexpr std::uint64_t half = 50;
constexpr std::uint64_t nearly_all = 99;

void print_calls(const v1::ClusterState& state, std::ostream& out) {
  Table table{{"ACTOR", "METHOD OR TASK", "NODE", ">RAN", ">FAILED", ">LATE", ">MEAN", ">HALF TOOK", ">99 OF 100 TOOK",
               ">MEAN WAIT", ">99 OF 100 WAITED"}};
  for (const auto& [actor, node, stats] : call_rows(state)) {
    const auto times = took(*stats);
    const auto waits = waited(*stats);
    table.add({actor != nullptr ? name_or_number(*actor) : "", stats->name(), node, std::to_string(how_many(times)),
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
  for (const auto& [actor, node, stats] : call_rows(state)) {
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
