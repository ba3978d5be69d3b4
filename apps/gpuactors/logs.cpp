// gpuactors logs: shows what an actor's processes print, or everything of a node; -f waits for more.
#include "actor_argument.hpp"
#include "cluster_options.hpp"
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"
#include "utc.hpp"
#include "words.hpp"

#include <gpuactors/gpuactors.hpp>

#include <iostream>
#include <memory>
#include <optional>

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
  GPUACTORS_LET(actor, key_of(cluster, arguments.actor));
  return cluster.logs(actor, options, sink);
}

} // namespace

Command add_logs(CLI::App& program) {
  auto arguments = std::make_shared<LogsArguments>();
  auto* parser = program.add_subcommand("logs", "Show what an actor prints, or all that a node's workers print");
  arguments->actor.add_to(*parser)->description(
      "The actor, or the ID of one without a name; gpuactors actors lists them. Not needed with --node");
  parser
      ->add_option("--node", arguments->node,
                   "Only what was written on this node; there are lines of actors that ended")
      ->type_name("N");
  parser->add_flag("-f,--follow", arguments->follow,
                   "Go on with what comes, until Ctrl-C or the end of the actor; to other nodes when it moves");
  parser->add_option("-n,--lines", arguments->count, "The last so many lines of those that are there. Default: 1000")
      ->type_name("COUNT");
  parser->add_flag("--json", arguments->json, "Print one object a line");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "Each line with its time (UTC), node and actor. What a worker process with several actors writes without "
      "saying for whom (printf, threads of their own) is shown for each of them, after [device 0] or the "
      "like.\n\n"
      "Examples:\n"
      "  gpuactors logs trainer -f --broker 127.0.0.1:7711\n"
      "  gpuactors logs trainer -n 20 --json --broker 127.0.0.1:7711 | jq -r .text\n"
      "  gpuactors logs trainer --node gpu-3              an actor that ended, where it ran\n"
      "  gpuactors logs --node gpu-3                      all of a node");
  return {parser, [arguments] { return run_logs(*arguments); }};
}

} // namespace gpuactors::cli
