#include "options.hpp"

#include "operations.hpp"

#include <apps/cli/usage.hpp>

#include <fmt/format.h>

namespace gpuactors::bench {

namespace {

constexpr const char* about =
    "Measures gpuactors beside the floor under it: plain CAF requests (in one process and between two), bare\n"
    "OpenBLAS, memcpy and sockets, in turns, and prints ratios. Absolute times of a shared machine mean little;\n"
    "ratios travel.\n\n"
    "  gpuactors-bench                          all rows\n"
    "  gpuactors-bench --list                   their names; those of rows gpu_... need a GPU and are left out "
    "without\n"
    "  gpuactors-bench --filter task --repeat 9 some rows, more repetitions\n"
    "  gpuactors-bench --json a.json --svg a.svg  for programs, and as a picture\n"
    "  gpuactors-bench --ray                    the rows of Ray's microbenchmark, counted as Ray does; beside Ray\n"
    "                                           itself: apps/bench/versus_ray.sh\n"
    "  gpuactors-bench --growth growth          how costs grow, as curves: growth/devices.csv, growth/devices.svg, "
    "...\n"
    "  gpuactors-bench --from a.json --peers ray.json   rows that were measured before, beside Ray's\n";

void add_options(CLI::App& program, Wanted& wanted) {
  auto* list = program.add_flag("--list", wanted.list, "Print the names of all rows and curves, and measure nothing");
  auto* filter = program.add_option("--filter", wanted.filter, "Only rows whose name contains this");
  auto* repeat = program.add_option("--repeat", wanted.repeat, "Repetitions of each row (median, least, most)")
                     ->check(CLI::Range(1, 1000));
  auto* json = program.add_option("--json", wanted.json, "Write machine and rows as JSON to this file");
  auto* svg = program.add_option("--svg", wanted.svg, "Draw the ratios as bars into this file");
  auto* peers =
      program.add_option("--peers", wanted.peers, "Numbers of a peer, as apps/bench/ray writes them, beside ours");
  auto* device =
      program
          .add_option("--device", wanted.device,
                      "Where the rows gpu_... run: cuda (left out, in words, where there is no GPU), or host to try "
                      "without one those that do not stand beside bare CUDA")
          ->check(CLI::IsMember({"cuda", "host"}));
  auto* smoke = program.add_flag(
      "--smoke", wanted.smoke, "Small sizes in the rows gpu_... beside bare CUDA: to see that they work, not how fast");
  auto* growth = program.add_option("--growth", wanted.growth,
                                    "Measure instead how costs grow with devices, waiting requests, actors, messages "
                                    "and nodes: a CSV and a picture of each into this folder");
  program.add_flag("--quick", wanted.quick, "With --growth: to sizes that take seconds")->needs(growth);
  auto* operation = program.add_option("--operation", wanted.operation,
                                       "Do instead one operation again and again, for a profiler: ledger (a grant and "
                                       "its release), embedded or remote (a call), task (in the same process)");
  operation->check(CLI::IsMember(operation_names()));
  program.add_option("--count", wanted.count, "With --operation: how often")
      ->check(CLI::Range(1, 1'000'000'000))
      ->needs(operation);
  auto* from = program.add_option("--from", wanted.from, "Measure nothing: take machine and rows from this JSON");
  auto* ray = program.add_flag("--ray", wanted.as_ray,
                               "The rows of Ray's microbenchmark, in a cluster without and with TLS and embedded");
  from->excludes(ray);
  // What these do not use is refused, not forgotten.
  for (auto* unused : {from, ray, json, svg, peers, repeat, device, smoke}) {
    growth->excludes(unused);
    operation->excludes(unused);
  }
  operation->excludes(growth)->excludes(filter);
  for (auto* unused : {from, growth, operation, json, svg, peers})
    list->excludes(unused);
  program.add_option("--modes", wanted.ray.modes, "With --ray: some of plain, tls, embedded")
      ->delimiter(',')
      ->check(CLI::IsMember({"plain", "tls", "embedded"}))
      ->needs(ray);
  program.add_option("--seconds", wanted.ray.seconds, "With --ray: length of a round")
      ->check(CLI::Range(0.01, 100.0))
      ->needs(ray);
  program.add_option("--rounds", wanted.ray.rounds, "With --ray: number of rounds")
      ->check(CLI::Range(1, 100))
      ->needs(ray);
  program.add_option("--actors", wanted.ray.actors, "With --ray: actors of the rows many_actors")
      ->check(CLI::Range(1, 10'000))
      ->needs(ray);
  program.add_option("--tasks", wanted.ray.tasks, "With --ray: tasks of the row many_tasks")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(ray);
}

} // namespace

std::optional<int> read_options(int argc, char** argv, Wanted& wanted) {
  CLI::App program{about, "gpuactors-bench"};
  add_options(program, wanted);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& wish) { // --help
    return program.exit(wish);
  } catch (const CLI::ParseError& error) {
    constexpr int bad_input = 2;
    fmt::print(stderr, "gpuactors-bench: {}\n", cli::explain(program, error));
    return bad_input;
  }
  return std::nullopt;
}

} // namespace gpuactors::bench
