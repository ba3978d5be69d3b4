// gpuactors spawn: starts an actor that outlives the command.
#include "incomplete.hpp"
#include "input.hpp"
#include "progress.hpp"
#include "resource_options.hpp"
#include "state_view.hpp"
#include "types.hpp"
#include "words.hpp"

#include <gpuactors/base/stop_signals.hpp>
#include <gpuactors/base/units.hpp>

#include <apps/cli/command_line.hpp>
#include <apps/cli/plain_output.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct SpawnArguments {
  ClusterOptions cluster;
  std::string actor;
  std::string config;
  std::string name;
  std::string name_space;
  ResourceOptions resources;
  std::optional<std::string> max_restarts;
  std::optional<std::string> restart_window;
  std::optional<std::string> spawn_timeout;
  std::optional<std::string> stuck_after;
  std::optional<std::string> max_task_retries;
  bool get_if_exists = false;
  bool json = false;
};

Result<std::optional<Duration>> read_duration(const std::string& what, const std::optional<std::string>& text) {
  if (!text)
    return std::optional<Duration>{};
  GPUACTORS_LET(seconds, parse_seconds(what, *text));
  return std::optional<Duration>{seconds};
}

Result<Options> spawn_options(const SpawnArguments& arguments) {
  GPUACTORS_LET(options, arguments.resources.read());
  if (arguments.name.empty())
    return fail(Errc::invalid_argument, "--name is empty: the actor is found by it later");
  options.name = arguments.name;
  options.name_space = arguments.name_space;
  GPUACTORS_LET(max_restarts, parse_times("--max-restarts", arguments.max_restarts));
  options.max_restarts = max_restarts;
  GPUACTORS_LET(restart_window, read_duration("--restart-window", arguments.restart_window));
  options.restart_window = restart_window;
  GPUACTORS_LET(spawn_timeout, read_duration("--spawn-timeout", arguments.spawn_timeout));
  options.spawn_timeout = spawn_timeout;
  GPUACTORS_LET(stuck_after, read_duration("--stuck-after", arguments.stuck_after));
  options.stuck_after = stuck_after;
  GPUACTORS_LET(max_task_retries, parse_times("--max-task-retries", arguments.max_task_retries));
  options.max_task_retries = max_task_retries;
  options.get_if_exists = arguments.get_if_exists;
  options.detached = true; // the command ends now, the actor when it is killed
  return std::move(options);
}

/// Where no terminal shows the progress, a line tells it after a while.
void say_what_it_waits_for(Cluster& cluster, const std::vector<Future<ActorRef>>& spawned, const std::string& name) {
  constexpr std::chrono::seconds patience{2};
  if (isatty(STDERR_FILENO) != 0 || !wait(spawned, 1, patience).empty())
    return;
  if (const auto state = cluster.state())
    for (const auto& waiting : state->queue())
      if (waiting.name() == name)
        std::cerr << fmt::format("{} waits for a place: {} (Ctrl-C withdraws it)\n", name,
                                 plain_text(waiting.reason()));
}

/// What an interrupted command says of the actor that it asked for.
std::string interrupted(const std::string& name, const std::string& name_space, Presence presence) {
  if (presence == Presence::absent)
    return fmt::format("interrupted: actor {} is not started", name);
  const auto kill = fmt::format("gpuactors kill {}{}", shell_quoted(name),
                                name_space.empty() ? "" : " --name-space " + shell_quoted(name_space));
  if (presence == Presence::unknown)
    return fmt::format("interrupted: actor {} is not started, unless others have asked for it too, which is not known "
                       "since there are more actors than one answer has room for; {} ends it",
                       name, kill);
  return fmt::format("interrupted: actor {} stays, since others have asked for it too; {} ends it", name, kill);
}

/// Waits until the actor runs. Ctrl-C and SIGTERM withdraw the request: nobody would expect an actor that starts later.
Result<void> await(Cluster& cluster, const StopSignals& signals, std::vector<Future<ActorRef>>& spawned,
                   const std::string& name, const std::string& name_space) {
  {
    // Its end waits for a withdrawal that is being sent.
    const std::stop_callback withdraw{signals.token(), [&] { spawned.front().cancel(); }};
    say_what_it_waits_for(cluster, spawned, name);
    show_progress(cluster, spawned);
    wait(spawned, 1, Duration::max());
  }
  if (signals.came()) {
    // Asked behind the withdrawal on the same connection: the broker has it before it answers.
    const auto state = cluster.state();
    if (!state)
      return fail(Errc::unavailable, fmt::format("interrupted, and the broker does not answer: whether actor {} is "
                                                 "started later is not known",
                                                 name));
    const bool stays = std::any_of(state->actors().begin(), state->actors().end(), [&](const auto& actor) {
      return actor.name() == name && actor.name_space() == name_space && actor.state() != "stopping";
    });
    return fail(Errc::cancelled, interrupted(name, name_space, presence_of(stays, *state, "actors")));
  }
  return {};
}

Result<void> run_spawn(const SpawnArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_LET(options, spawn_options(arguments));
  std::optional<Cluster> cluster;
  GPUACTORS_LET(types, open_types(arguments.cluster, cluster, arguments.actor));
  GPUACTORS_LET(type, types.find_actor(arguments.actor));
  GPUACTORS_LET(config, read_message(types, type->config(), arguments.config));
  fill_in(options, type->needs());
  GPUACTORS_LET(gpus, parse_gpus(options.gpus));
  GPUACTORS_TRY(check_ownership(ownership_of(*type), gpus, options.memory_bytes, type->name()));
  // From here on, Ctrl-C withdraws the request.
  const StopSignals signals;
  std::vector<Future<ActorRef>> spawned;
  spawned.push_back(cluster->spawn_payload(arguments.actor, std::move(config), options));
  GPUACTORS_TRY(await(*cluster, signals, spawned, options.name, options.name_space));
  GPUACTORS_LET(actor, spawned.front().get());
  const auto info = actor.info();
  if (arguments.json)
    print_json(std::cout, json_of(info));
  else
    std::cout << fmt::format("{} {} (id {}) on node {}, devices: {}, process {}\n", info.type(), info.name(), info.id(),
                             info.lease().node(), devices_in_words(info.lease()), info.pid());
  return {};
}

void add_life_options(CLI::App& parser, SpawnArguments& arguments) {
  parser.add_option("--name", arguments.name, "Its name, unique in the cluster, to call it by")
      ->required()
      ->type_name("N");
  parser.add_option("--name-space", arguments.name_space, "Name space of the actor's name. Default: none")
      ->type_name("S");
  parser
      .add_option("--max-restarts", arguments.max_restarts,
                  "How often it restarts when it has died, with the state that it saved, or always. Default: 0. The "
                  "first time at once, then after pauses that double up to 30 s while it does not last")
      ->type_name("N|always");
  parser
      .add_option("--restart-window", arguments.restart_window,
                  "A life of at least this length resets the count of restarts. Default: never")
      ->type_name("SECONDS");
  parser
      .add_option("--spawn-timeout", arguments.spawn_timeout,
                  "How long its first start may take, from the order to its node until its constructor is done. "
                  "Default: no limit")
      ->type_name("SECONDS");
  parser
      .add_option("--stuck-after", arguments.stuck_after,
                  "End its process, so that it restarts if it may, when a method runs for longer than this. Default: "
                  "never")
      ->type_name("SECONDS");
  parser
      .add_option("--max-task-retries", arguments.max_task_retries,
                  "How often a call that its death interrupted is made again, or always. Default: 0")
      ->type_name("N|always");
  parser.add_flag("--get-if-exists", arguments.get_if_exists,
                  "If there is an actor of this name and type, that one is the result");
  parser.add_flag("--json", arguments.json, "Print the actor as one object");
}

} // namespace

Command add_spawn(CLI::App& program) {
  auto arguments = std::make_shared<SpawnArguments>();
  auto* parser = program.add_subcommand("spawn", "Start an actor, which lives on when the command has ended");
  parser->add_option("actor", arguments->actor, "Actor type; gpuactors types lists them")
      ->required()
      ->type_name("ACTOR");
  parser
      ->add_option("config", arguments->config,
                   "The actor's configuration as JSON, @FILE to read it from a file, - from standard input. Default: "
                   "{}")
      ->type_name(message_argument);
  add_life_options(*parser, *arguments);
  arguments->resources.add_to(*parser);
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer("It waits until the actor runs. Then gpuactors call calls its methods. gpuactors kill "
                 "ends it, and\nwith restarts left it starts again: gpuactors kill --no-restart ends it for good.\n\n"
                 "Examples:\n"
                 "  gpuactors up                                  in another terminal: a cluster on this machine\n"
                 "  export GPUACTORS_BROKER=127.0.0.1:7711\n"
                 "  gpuactors spawn counter --name c0\n"
                 "  gpuactors spawn holder --name h0 --gpus 0.5 --max-restarts 3\n"
                 "  gpuactors spawn counter --name c1 --max-restarts always --env TZ=UTC --env LEVEL=debug\n"
                 "  gpuactors spawn counter --name c2 --max-restarts 5 --restart-window 3600   five an hour, about\n"
                 "  gpuactors spawn holder --name h1 --memory 64MiB --isolation process --json | jq .pid");
  return {parser, [arguments] { return run_spawn(*arguments); }};
}

} // namespace gpuactors::cli
