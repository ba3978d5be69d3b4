// gpuactors wait: waits until an actor has ended for good.
#include "actor_argument.hpp"
#include "cluster_options.hpp"
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

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

Result<void> run_wait(const WaitArguments& arguments) {
  auto limit = Duration::max();
  if (arguments.timeout) {
    GPUACTORS_LET(given, parse_seconds("--timeout", *arguments.timeout));
    limit = given;
  }
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_LET(actor, key_of(cluster, arguments.actor));
  auto end = cluster.when_ended(actor);
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
  arguments->actor.add_to(*parser)->required();
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
