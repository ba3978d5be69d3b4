// gpuactors logs: shows what an actor's processes print, or everything of a node; -f waits for more.
#include "actor_argument.hpp"
#include "cluster_options.hpp"
#include "command.hpp"
#include "incomplete.hpp"
#include "input.hpp"
#include "json.hpp"
#include "utc.hpp"
#include "words.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/cli/plain_output.hpp>
#include <apps/cli/usage.hpp>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <utility>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct LogsArguments {
  ClusterOptions cluster;
  ActorArgument actor;
  std::string node;
  std::optional<std::string> count;
  bool follow = false;
  bool json = false;
};

void print_line(const LogRecord& line) {
  std::cout << log_line_in_words(line) << std::endl;
}

void print_object(const LogRecord& line) {
  const Json object{{"time", utc_for_programs(line.time)},
                    {"node", line.node},
                    {"source", line.source},
                    {"actor", line.actor ? json_of(line.actor.value()) : Json("")},
                    {"stream", std::string{to_string(line.stream)}},
                    {"text", line.text}};
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

/// Reads what an actor printed that has ended, where it was last: that node is found without being named.
Result<void> logs_of_ended(Cluster& cluster, const v1::EndedActor& ended, LogsOptions options, const LogSink& sink) {
  const auto& actor = ended.actor();
  const auto name = name_or_number(actor);
  options.node = actor.lease().node();
  options.follow = false; // nothing comes any more
  if (options.node.empty())
    return fail(Errc::not_found, fmt::format("{} has ended before it was on any node: {}", name, ended.reason()));
  const auto note =
      fmt::format("{} has ended: {}; this is what it printed on node {}{}", name, ended.reason(), options.node,
                  actor.restarts() > 0 ? " (--node N: on another one, in an earlier life)" : "");
  std::cerr << plain_text(one_line(note)) << std::endl;
  auto read = cluster.logs(ActorId{actor.id()}, options, sink);
  if (!read)
    return fail(read.error().code(), fmt::format("{} was on node {} when it ended, and its log cannot be read: {}",
                                                 name, options.node, read.error().message()));
  return read;
}

/// Reads the log of a node, or that of an actor, which may have ended.
Result<void> read_logs(Cluster& cluster, const ActorArgument& argument, LogsOptions options, const LogSink& sink) {
  if (!argument.name.empty() && (options.node.empty() || options.follow)) {
    GPUACTORS_LET(state, cluster.state({.ended = limits::ended_actors}));
    // Where not all actors are shown, another one of this name may live.
    const auto* ended = is_whole(state, "actors") ? find_ended(state, argument) : nullptr;
    if (ended != nullptr && options.node.empty())
      return logs_of_ended(cluster, *ended, std::move(options), sink);
    options.follow = options.follow && ended == nullptr;
  }
  GPUACTORS_LET(actor, key_of(cluster, argument));
  auto read = cluster.logs(actor, options, sink);
  if (!read && read.error().code() == Errc::not_found && options.node.empty())
    return fail(Errc::not_found, read.error().message() + " (--node N; gpuactors nodes lists them)");
  return read;
}

Result<void> run_logs(const LogsArguments& arguments) {
  if (arguments.actor.name.empty() && arguments.node.empty())
    return fail(Errc::invalid_argument,
                "an actor's name or --node is needed: gpuactors actors and gpuactors nodes list "
                "what there is");
  LogsOptions options;
  options.node = arguments.node;
  options.follow = arguments.follow;
  if (arguments.count) {
    GPUACTORS_LET(count, parse_integer("--lines", *arguments.count, 0, limits::log_tail_lines));
    options.count = static_cast<std::size_t>(count);
  }
  const StopSignals signals;
  options.stop = signals.token();
  GPUACTORS_LET(cluster, arguments.cluster.open());
  const auto sink = [&](const LogRecord& line) {
    if (arguments.json)
      print_object(line);
    else
      print_line(line);
    return static_cast<bool>(std::cout);
  };
  return read_logs(cluster, arguments.actor, std::move(options), sink);
}

} // namespace

Command add_logs(CLI::App& program) {
  auto arguments = std::make_shared<LogsArguments>();
  auto* parser = program.add_subcommand("logs", "Show what an actor prints, or all that a node's workers print");
  arguments->actor.add_to(*parser)->description(
      "The actor, or the ID of one without a name; gpuactors actors lists them. Not needed with --node");
  parser
      ->add_option("--node", arguments->node,
                   "Only what was written on this node. Default for an actor: where it is, or was when it ended")
      ->type_name("N");
  parser->add_flag("-f,--follow", arguments->follow,
                   "Go on with what comes, until Ctrl-C or the end of the actor; to other nodes when it moves");
  parser->add_option("-n,--lines", arguments->count, "The last so many lines of those that are there. Default: 1000")
      ->type_name("COUNT");
  parser->add_flag("--json", arguments->json, "Print one object a line");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(fmt::format(
      "Each line with its time (UTC), node and actor. Of an actor that has ended, a line on standard error says so and "
      "why; the broker remembers the last {} of them. What a worker process with several actors writes without "
      "saying for whom (printf, threads of their own) is shown for each of them, after [device 0] or the "
      "like.\n\n"
      "Examples:\n"
      "  gpuactors logs trainer -f --broker 127.0.0.1:7711\n"
      "  gpuactors logs trainer -n 20 --json --broker 127.0.0.1:7711 | jq -r .text\n"
      "  gpuactors logs trainer --node gpu-3              only what it printed there\n"
      "  gpuactors logs --node gpu-3                      all of a node",
      limits::ended_actors));
  return {parser, [arguments] { return run_logs(*arguments); }};
}

} // namespace gpuactors::cli
