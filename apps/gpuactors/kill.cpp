// gpuactors kill: ends an actor.
#include "cluster_options.hpp"
#include "command.hpp"
#include "nameless.hpp"

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
  std::string name;
  std::string name_space;
  bool no_restart = false;
};

/// That of the actor without a name that is meant; null if there is none.
Result<ActorId> number_of(Cluster& cluster, const std::string& text) {
  GPUACTORS_LET(state, cluster.state());
  for (const auto& actor : state.actors())
    if (is_nameless(actor, text))
      return ActorId{actor.id()};
  return ActorId{};
}

Result<void> run_kill(const KillArguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  KillOptions options;
  options.restart = !arguments.no_restart;
  GPUACTORS_LET(number, arguments.name_space.empty() ? number_of(cluster, arguments.name) : ActorId{});
  if (number)
    GPUACTORS_TRY(cluster.kill(number, options));
  else
    GPUACTORS_TRY(cluster.kill({arguments.name, arguments.name_space}, options));
  GPUACTORS_LET(state, cluster.state());
  const auto again = std::find_if(state.actors().begin(), state.actors().end(), [&](const v1::ActorInfo& actor) {
    return number ? actor.id() == number.value()
                  : actor.name() == arguments.name && actor.name_space() == arguments.name_space;
  });
  std::cout << (again == state.actors().end()
                    ? fmt::format("{} has ended\n", arguments.name)
                    : fmt::format("{} has ended and restarts (restart {})\n", arguments.name, again->restarts()));
  return {};
}

} // namespace

Command add_kill(CLI::App& program) {
  auto arguments = std::make_shared<KillArguments>();
  auto* parser = program.add_subcommand(
      "kill", "End an actor; it restarts while it has restarts left (--no-restart ends it for good)");
  parser->add_option("name", arguments->name, "The actor, or the ID of one without a name; gpuactors actors lists them")
      ->required()
      ->type_name("NAME");
  parser->add_option("--name-space", arguments->name_space, "The one that its name is in")->type_name("S");
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
