// gpuactors kill: ends an actor.
#include "actor_argument.hpp"
#include "cluster_options.hpp"
#include "command.hpp"
#include "incomplete.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

namespace gpuactors::cli {

namespace {

struct KillArguments {
  ClusterOptions cluster;
  ActorArgument actor;
  bool no_restart = false;
};

Result<void> run_kill(const KillArguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  KillOptions options;
  options.restart = !arguments.no_restart;
  const auto& name = arguments.actor.name;
  GPUACTORS_LET(key, key_of_living(cluster, arguments.actor));
  GPUACTORS_TRY(cluster.kill(key, options));
  if (arguments.no_restart) {
    // Not asked for: another one may have its name by now.
    std::cout << fmt::format("{} has ended\n", name);
    return {};
  }
  GPUACTORS_LET(state, cluster.state());
  const auto again = std::find_if(state.actors().begin(), state.actors().end(),
                                  [&](const v1::ActorInfo& actor) { return is_meant(actor, arguments.actor); });
  switch (presence_of(again != state.actors().end(), state, "actors")) {
  case Presence::there:
    std::cout << fmt::format("{} has ended and restarts (restart {})\n", name, again->restarts());
    break;
  case Presence::absent:
    std::cout << fmt::format("{} has ended\n", name);
    break;
  case Presence::unknown:
    std::cout << fmt::format("{} has ended; whether it restarts is not known, since there are more actors than one "
                             "answer has room for\n",
                             name);
    break;
  }
  return {};
}

} // namespace

Command add_kill(CLI::App& program) {
  auto arguments = std::make_shared<KillArguments>();
  auto* parser = program.add_subcommand(
      "kill", "End an actor; it restarts while it has restarts left (--no-restart ends it for good)");
  arguments->actor.add_to(*parser)->required();
  parser->add_flag("--no-restart", arguments->no_restart, "It stays ended, whatever restarts it has left");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "It returns when the actor's memory is free again. A method that runs has 5 seconds to stop.\n\n"
      "Examples:\n"
      "  gpuactors kill c0 --broker 127.0.0.1:7711                      restart it, if it has restarts left\n"
      "  gpuactors kill c0 --no-restart --broker 127.0.0.1:7711");
  return {parser, [arguments] { return run_kill(*arguments); }};
}

} // namespace gpuactors::cli
