// gpuactors plan: places the requests of a scenario without running anything.
#include "command.hpp"
#include "input.hpp"

#include <gpuactors/plan/plan.hpp>

#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

Result<void> run_scenario(const std::string& path) {
  GPUACTORS_LET(in, open_document(path));
  if (auto result = run_plan(*in, std::cout); !result)
    return fail(result.error().code(),
                fmt::format("{}: {}", path == "-" ? "standard input" : path, result.error().message()));
  return {};
}

} // namespace

Command add_plan(CLI::App& program) {
  auto path = std::make_shared<std::string>("-");
  auto* parser = program.add_subcommand("plan", "Place without running: a scenario in JSON in, JSON lines out");
  parser->add_option("scenario", *path, "File with the scenario; - (also when left out): standard input")
      ->type_name("SCENARIO.json");
  parser->footer(
      "The scenario names nodes with devices, and steps: submit, release, add_node, ... Each event is a line "
      "(granted,\npending, infeasible, rejected, released, lost), the last line is the final state.\n\n"
      "Example: three requests for 0.5 of a device on a node with two\n"
      "  echo '{\"nodes\":[{\"name\":\"n0\",\"devices\":[{\"count\":2,\"memory_bytes\":\"17179869184\"}]}],\n"
      "         \"steps\":[{\"submit\":{\"id\":\"a\",\"gpus\":0.5}},{\"submit\":{\"id\":\"b\",\"gpus\":0.5}},\n"
      "                  {\"submit\":{\"id\":\"c\",\"gpus\":0.5}}]}' | gpuactors plan");
  return {parser, [path] { return run_scenario(*path); }};
}

} // namespace gpuactors::cli
