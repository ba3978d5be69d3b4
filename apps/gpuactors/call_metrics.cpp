#include "call_metrics.hpp"

#include "call_times.hpp"

#include <string>
#include <vector>

namespace gpuactors::cli {

namespace {

struct Counted {
  MetricsWriter::Labels labels;
  const v1::CallStats* stats;
};

void write_counted(MetricsWriter& out, const std::vector<Counted>& all, const std::string& what,
                   std::string_view help) {
  const std::vector<double> bounds{limits::call_seconds.begin(), limits::call_seconds.end()};
  const auto write = [&](const std::string& family, std::string_view about,
                         CallTimes (*times_of)(const v1::CallStats&)) {
    out.family(family, "histogram", about);
    for (const auto& [labels, stats] : all) {
      const auto times = times_of(*stats);
      out.histogram(labels, bounds, {times.counts.begin(), times.counts.end()}, times.seconds);
    }
  };
  write(what + "_seconds", help, took);
  write(what + "_wait_seconds",
        "How long they waited for their turn since they were made, also those that were then late.", waited);
  out.family(what + "_failed_total", "counter", "Of these, how many were answered with an error.");
  for (const auto& [labels, stats] : all)
    out.sample(labels, static_cast<double>(stats->failed()));
  out.family(what + "_late_total", "counter",
             "How many did not run, because their deadline passed before their turn came.");
  for (const auto& [labels, stats] : all)
    out.sample(labels, static_cast<double>(stats->late()));
}

} // namespace

void write_calls(MetricsWriter& out, const v1::ClusterState& state) {
  std::vector<Counted> calls;
  for (const auto& actor : state.actors())
    for (const auto& method : actor.methods())
      if (!actor.name().empty())
        calls.push_back(
            {{{"name_space", actor.name_space()}, {"actor", actor.name()}, {"method", method.name()}}, &method});
  write_counted(out, calls, "gpuactors_actor_call",
                "How long calls took from their turn to their answer, in this life; of actors with a name.");
  std::vector<Counted> tasks;
  for (const auto& node : state.nodes())
    for (const auto& task : node.tasks())
      tasks.push_back({{{"node", node.node().name()}, {"task", task.name()}}, &task});
  write_counted(out, tasks, "gpuactors_task", "How long tasks took from their turn to their answer.");
}

} // namespace gpuactors::cli
