// The subcommands of the program, and how one is parsed, run and reported.
#pragma once

#include <gpuactors/base/result.hpp>

#include <CLI/CLI.hpp>

#include <functional>
#include <vector>

namespace gpuactors::cli {

/// A subcommand: the parser of its arguments, and the function that runs once they are parsed.
struct Command {
  CLI::App* parser = nullptr;
  std::function<Result<void>()> run;
};

// Each function adds one subcommand to `program`.
Command add_types(CLI::App& program);
Command add_devices(CLI::App& program);
Command add_submit(CLI::App& program);
Command add_plan(CLI::App& program);
Command add_certs(CLI::App& program);
Command add_status(CLI::App& program);
Command add_nodes(CLI::App& program);
Command add_actors(CLI::App& program);
Command add_calls(CLI::App& program);
Command add_leases(CLI::App& program);
Command add_queue(CLI::App& program);
Command add_drain(CLI::App& program);
Command add_undrain(CLI::App& program);
Command add_groups(CLI::App& program);
Command add_quotas(CLI::App& program);
Command add_events(CLI::App& program);
Command add_timeline(CLI::App& program);
Command add_metrics(CLI::App& program);
Command add_dashboard(CLI::App& program);
Command add_spawn(CLI::App& program);
Command add_call(CLI::App& program);
Command add_kill(CLI::App& program);
Command add_wait(CLI::App& program);
Command add_logs(CLI::App& program);
Command add_broker(CLI::App& program);
Command add_node(CLI::App& program);
Command add_up(CLI::App& program);

/// Parses the arguments and runs the subcommand that they name. Errors go to standard error, one line each.
/// @returns the exit code: 0 for success, 2 for bad usage or input, 1 for any other failure.
int run(CLI::App& program, const std::vector<Command>& commands, int argc, const char* const* argv);

} // namespace gpuactors::cli
