// gpuactors actors: lists the actors, where they are and their states; --ended: those that have ended, when and why.
#include "incomplete.hpp"
#include "input.hpp"
#include "state_view.hpp"
#include "table.hpp"
#include "utc.hpp"
#include "words.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct ActorsArguments {
  ClusterOptions cluster;
  /// The number of --ended; no number in it if that was left out.
  std::optional<std::string> ended;
  bool json = false;
};

constexpr std::uint32_t ended_when_left_out = 20;

/// A table of actors with the columns COUNTED and MOVES behind RESTARTS if not all restarts count: only then a reader
/// needs to know which do.
class ActorTable {
public:
  /// @param titles of the columns before and after those of restarts.
  ActorTable(bool counted, std::vector<std::string> before, const std::vector<std::string>& after)
    : counted_(counted), table_(joined(std::move(before), {">RESTARTS", ">COUNTED", ">MOVES"}, after)) {
    // nop
  }

  void add(const v1::ActorInfo& actor, std::vector<std::string> before, const std::vector<std::string>& after) {
    table_.add(joined(std::move(before),
                      {std::to_string(actor.restarts()), counted_in_words(actor), std::to_string(actor.moves())},
                      after));
  }

  void print(std::ostream& out) const {
    table_.print(out);
  }

private:
  [[nodiscard]] std::vector<std::string> joined(std::vector<std::string> row, const std::vector<std::string>& restarts,
                                                const std::vector<std::string>& after) const {
    row.insert(row.end(), restarts.begin(), counted_ ? restarts.end() : restarts.begin() + 1);
    row.insert(row.end(), after.begin(), after.end());
    return row;
  }

  bool counted_;
  Table table_;
};

bool some_do_not_count(const v1::ActorInfo& actor) {
  return counted_restarts(actor) != actor.restarts();
}

void print_actors(const v1::ClusterState& state, std::ostream& out) {
  const auto& actors = state.actors();
  ActorTable table{std::any_of(actors.begin(), actors.end(), some_do_not_count),
                   {"NAME", ">ID", "TYPE", "STATE"},
                   {"NODE", ">PID", "DEVICES (SHARE, MEMORY)", ">IN USE", ">CALLS", "OWNER"}};
  for (const auto& actor : actors) {
    const auto pid = pid_of(actor);
    table.add(actor, {full_name(actor), std::to_string(actor.id()), actor.type(), actor.state()},
              {actor.lease().node(), pid != 0 ? std::to_string(pid) : "",
               actor.has_lease() ? devices_in_words(actor.lease()) : "",
               pid != 0 ? format_bytes(actor.memory_used_bytes()) : "", std::to_string(actor.calls()), actor.owner()});
  }
  table.print(out);
}

Json json_actors(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& actor : state.actors())
    list.push_back(json_of(actor));
  return list;
}

std::string error_of(const v1::EndedActor& ended) {
  return std::string{to_string(static_cast<Errc>(ended.error()))};
}

void print_ended(const v1::ClusterState& state, std::ostream& out) {
  const auto& all = state.ended();
  ActorTable table{
      std::any_of(all.begin(), all.end(), [](const auto& ended) { return some_do_not_count(ended.actor()); }),
      {"ENDED (UTC)", "NAME", ">ID", "TYPE", "NODE"},
      {"ERROR", "REASON"}};
  for (const auto& ended : all) {
    const auto& actor = ended.actor();
    table.add(actor,
              {utc_for_people(from_unix_ns(ended.unix_ns())), full_name(actor), std::to_string(actor.id()),
               actor.type(), actor.lease().node()},
              {error_of(ended), ended.reason()});
  }
  table.print(out);
}

Json json_ended(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& ended : state.ended()) {
    auto object = json_of(ended.actor());
    object["state"] = "ended";
    object["ended"] = utc_for_programs(from_unix_ns(ended.unix_ns()));
    object["error"] = error_of(ended);
    object["reason"] = ended.reason();
    list.push_back(std::move(object));
  }
  return list;
}

/// Returns how many ended actors to ask for; 0 without --ended.
Result<std::uint32_t> read_ended(const std::optional<std::string>& text) {
  if (!text)
    return 0U;
  if (text->empty() || *text == "true") // what the parser gives if the number was left out
    return ended_when_left_out;
  GPUACTORS_LET(count, parse_integer("--ended", *text, 1, limits::ended_actors));
  return static_cast<std::uint32_t>(count);
}

Result<void> run_actors(const ActorsArguments& arguments) {
  GPUACTORS_LET(ended, read_ended(arguments.ended));
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_LET(state, cluster.state({.ended = ended}));
  say_what_is_incomplete(state);
  if (arguments.json)
    print_json(std::cout, ended > 0 ? json_ended(state) : json_actors(state));
  else if (ended > 0)
    print_ended(state, std::cout);
  else
    print_actors(state, std::cout);
  return {};
}

/// Returns a histogram as an object; another value as it is, where one that is no finite number is null in JSON.
Json published_value(const v1::Metric& metric) {
  if (metric.kind() != v1::Metric::HISTOGRAM)
    return metric.value();
  auto counts = Json::array();
  for (const auto count : metric.counts())
    counts.push_back(json_of(count));
  return {{"sum", metric.value()},
          {"bounds", std::vector<double>{metric.bounds().begin(), metric.bounds().end()}},
          {"counts", std::move(counts)}};
}

/// Returns what the actor publishes by its names.
Json metrics_of(const v1::ActorInfo& actor) {
  auto result = Json::object();
  for (const auto& metric : actor.metrics())
    result[metric.name()] = published_value(metric);
  return result;
}

} // namespace

Json json_of(const v1::ActorInfo& actor) {
  return {{"name", actor.name()},
          {"name_space", actor.name_space()},
          {"id", json_of(actor.id())},
          {"type", actor.type()},
          {"node", actor.lease().node()},
          {"address", actor.address()},
          {"pid", pid_of(actor)},
          {"state", actor.state()},
          {"restarts", actor.restarts()},
          {"counted_restarts", counted_restarts(actor)},
          {"moves", actor.moves()},
          {"max_restarts", actor.max_restarts()},
          {"memory_used_bytes", json_of(actor.memory_used_bytes())},
          {"calls", json_of(actor.calls())},
          {"metrics", metrics_of(actor)},
          {"lease", actor.has_lease() ? json_of(actor.lease().id()) : Json("")},
          {"devices", devices_of(actor.lease())},
          {"owner", actor.owner()},
          {"spawned_by", actor.spawned_by()},
          {"detached", actor.detached()},
          {"max_task_retries", actor.max_task_retries()},
          {"max_pending_calls", json_of(actor.max_pending_calls())}};
}

Command add_actors(CLI::App& program) {
  auto arguments = std::make_shared<ActorsArguments>();
  auto* parser = program.add_subcommand("actors", "The actors: where they are, their processes and devices; who ended");
  parser
      ->add_option("--ended", arguments->ended,
                   fmt::format("The last N actors that have ended for good, the latest first, in place of those that "
                               "there are: when, where and why. Default of N: {}",
                               ended_when_left_out))
      ->type_name("[N]")
      ->expected(0, 1);
  parser->add_flag("--json", arguments->json, "Print one array with an object for each actor");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(fmt::format(
      "An actor is waiting (for its resources: gpuactors queue says for what), starting, alive, restarting (it died, "
      "and pauses before its next start), returning (a broker that was started again waits for its node) or stopping. "
      "What it uses of its memory, how many calls it has served in this life and what it publishes (with --json) are "
      "up to a second old.\n\n"
      "Of its restarts, moves off nodes that are emptied (gpuactors drain --deadline) do not count against "
      "--max-restarts, nor do those before a life of its --restart-window. Where there are such, COUNTED is how many "
      "count, of how many there may be, and MOVES how many were moves.\n\n"
      "Of actors that have ended the broker tells of the last {}, until it ends itself.\n\n"
      "Examples:\n"
      "  gpuactors actors --broker 127.0.0.1:7711\n"
      "  gpuactors actors --broker 127.0.0.1:7711 --json | jq '.[] | {{name, node, pid, restarts}}'\n"
      "  gpuactors actors --ended --broker 127.0.0.1:7711\n"
      "  gpuactors actors --ended 100 --json | jq -r '.[] | select(.error != \"actor_died\") | .reason'",
      limits::ended_actors));
  return {parser, [arguments] { return run_actors(*arguments); }};
}

} // namespace gpuactors::cli
