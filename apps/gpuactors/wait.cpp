// gpuactors wait: waits until an actor has ended for good.
#include "actor_argument.hpp"
#include "cluster_options.hpp"
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

namespace gpuactors::cli {

namespace {

struct WaitArguments {
  ClusterOptions cluster;
  ActorArgument actor;
  std::optional<std::string> timeout;
  bool json = false;
};

/// By its name, unless a number is meant that is nobody's name.
Result<Future<ActorEnd>> end_of(Cluster& cluster, const ActorArgument& argument) {
  const auto by_name = [&] { return cluster.when_ended({argument.name, argument.name_space}); };
  if (!is_number(argument))
    return by_name();
  StateOptions options;
  options.ended = limits::ended_actors;
  GPUACTORS_LET(state, cluster.state(options));
  const auto has_the_name = [&](const v1::ActorInfo& actor) {
    return actor.name() == argument.name && actor.name_space().empty();
  };
  if (std::any_of(state.actors().begin(), state.actors().end(), has_the_name)
      || std::any_of(state.ended().begin(), state.ended().end(),
                     [&](const v1::EndedActor& ended) { return has_the_name(ended.actor()); }))
    return by_name();
  v1::ActorHandle handle;
  handle.set_id(std::strtoull(argument.name.c_str(), nullptr, 10));
  return cluster.when_ended(handle);
}

Result<void> run_wait(const WaitArguments& arguments) {
  auto limit = Duration::max();
  if (arguments.timeout) {
    GPUACTORS_LET(given, parse_seconds("--timeout", *arguments.timeout));
    limit = given;
  }
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_LET(end, end_of(cluster, arguments.actor));
  if (!end.wait(limit))
    return fail(Errc::deadline_exceeded,
                fmt::format("{} has not ended within {} s", arguments.actor.name, *arguments.timeout));
  GPUACTORS_LET(ended, end.get());
  if (arguments.json)
    print_json(std::cout, Json{{"id", json_of(ended.id.value())},
                               {"name", ended.name},
                               {"type", ended.type},
                               {"error", to_string(ended.reason.code())},
                               {"reason", ended.reason.message()}});
  else
    std::cout << fmt::format("{} has ended: {}\n", arguments.actor.name, ended.reason.message());
  return {};
}

} // namespace

Command add_wait(CLI::App& program) {
  auto arguments = std::make_shared<WaitArguments>();
  auto* parser = program.add_subcommand("wait", "Wait until an actor has ended for good, and print why");
  arguments->actor.add_to(*parser);
  parser->add_option("--timeout", arguments->timeout, "Fail if it has not ended by then. Default: no limit")
      ->type_name("SECONDS");
  parser->add_flag("--json", arguments->json, "Print one object, with the error that its callers get");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "Restarts are no end: it waits through those of the actor and of the broker. The exit code is 0 when the "
      "actor has ended, however it has; if it already has, it returns at once.\n\n"
      "Examples:\n"
      "  gpuactors spawn trainer --name t0 --gpus 1 @config.json && gpuactors wait t0\n"
      "  gpuactors wait t0 --timeout 3600 --json | jq -r .reason");
  return {parser, [arguments] { return run_wait(*arguments); }};
}

} // namespace gpuactors::cli
