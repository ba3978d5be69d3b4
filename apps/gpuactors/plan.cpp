// gpuactors plan: places the requests of a scenario without running anything.
#include "command.hpp"
#include "input.hpp"

#include <gpuactors/plan/plan.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct PlanArguments {
  std::string path = "-";
  std::string explain;
  bool json = false;
  bool table = false;
  std::string svg;
};

auto cannot_write(const std::string& svg, int error) {
  return fail(Errc::invalid_argument, fmt::format("--svg {} cannot be written: {}", svg, std::strerror(error)));
}

/// So that a picture that has no place does not cost a long run. What is there stays until there is a picture.
Result<void> check_place(const PlanArguments& arguments) {
  std::error_code failed;
  const std::filesystem::path svg = arguments.svg;
  if (arguments.path != "-" && std::filesystem::is_regular_file(svg, failed)
      && std::filesystem::equivalent(svg, arguments.path, failed))
    return fail(Errc::invalid_argument,
                fmt::format("--svg {} is the scenario, which the picture would replace", arguments.svg));
  if (std::filesystem::is_directory(svg, failed))
    return cannot_write(arguments.svg, EISDIR);
  const auto folder = svg.has_parent_path() ? svg.parent_path() : std::filesystem::path{"."};
  const bool is_there = std::filesystem::exists(svg, failed);
  if (::access(is_there ? svg.c_str() : folder.c_str(), W_OK) != 0)
    return cannot_write(arguments.svg, errno);
  return {};
}

Result<void> write_picture(const std::string& svg, const std::string& picture) {
  errno = 0;
  std::ofstream file{svg, std::ios::binary};
  file << picture;
  file.close();
  return file ? Result<void>{} : cannot_write(svg, errno != 0 ? errno : EIO);
}

Result<void> run_scenario(const PlanArguments& arguments) {
  PlanOptions options;
  options.explain = arguments.explain;
  options.json = arguments.json;
  options.table = arguments.table;
  options.events = arguments.explain.empty() && !arguments.table;
  GPUACTORS_LET(in, open_document(arguments.path));
  std::ostringstream picture;
  if (!arguments.svg.empty()) {
    GPUACTORS_TRY(check_place(arguments));
    options.svg = &picture;
  }
  const auto result = run_plan(*in, std::cout, options);
  if (!result)
    return fail(result.error().code(), fmt::format("{}: {}", arguments.path == "-" ? "standard input" : arguments.path,
                                                   result.error().message()));
  return arguments.svg.empty() ? Result<void>{} : write_picture(arguments.svg, picture.str());
}

} // namespace

Command add_plan(CLI::App& program) {
  auto arguments = std::make_shared<PlanArguments>();
  auto* parser = program.add_subcommand("plan", "Place without running: a scenario in JSON in, JSON lines out");
  parser->add_option("scenario", arguments->path, "File with the scenario. Default: -, standard input")
      ->type_name("SCENARIO.json");
  auto* explain = parser
                      ->add_option("--explain", arguments->explain,
                                   "Print, instead of the events, what every node said to this request or placement "
                                   "group")
                      ->type_name("ID");
  parser->add_flag("--json", arguments->json, "The explanation as one JSON object")->needs(explain);
  parser->add_flag("--table", arguments->table, "Draw, instead of the events, how full the devices are at the end");
  parser->add_option("--svg", arguments->svg, "Draw the leases on the devices over the steps, into this file")
      ->type_name("FILE");
  parser->footer(
      "The scenario names nodes with devices, and steps: submit, release, add_node, ... Each event is a line "
      "(granted,\npending, infeasible, rejected, released, lost), the last line is the final state.\n\n"
      "Example: three requests for 0.5 of a device on a node with two\n"
      "  echo '{\"nodes\":[{\"name\":\"n0\",\"devices\":[{\"count\":2,\"memory_bytes\":\"17179869184\"}]}],\n"
      "         \"steps\":[{\"submit\":{\"id\":\"a\",\"gpus\":0.5}},{\"submit\":{\"id\":\"b\",\"gpus\":0.5}},\n"
      "                  {\"submit\":{\"id\":\"c\",\"gpus\":0.5}}]}' | gpuactors plan");
  return {parser, [arguments] { return run_scenario(*arguments); }};
}

} // namespace gpuactors::cli
