// gpuactors-bench: every claim of speed, measured beside its floor in one run.
#include "child.hpp"
#include "floor.hpp"
#include "ray_rows.hpp"
#include "rows.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <thread>

namespace {

/// What this program does as a process beside the one that measures.
std::optional<int> run_if_child(const std::vector<std::string>& arguments) {
  using namespace gpuactors::bench;
  constexpr std::size_t client_arguments = 5;
  if (arguments.size() == 2 && arguments[0] == "--cluster") {
    end_with_parent();
    return serve_cluster(arguments[1]);
  }
  if (arguments.size() == 2 && arguments[0] == "--floor-server") {
    end_with_parent();
    return serve_floor(arguments[1]);
  }
  if (arguments.size() == client_arguments && arguments[0] == "--floor-client") {
    end_with_parent();
    return ask_floor({arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4])});
  }
  constexpr std::size_t fetch_arguments = 4;
  if (arguments.size() == fetch_arguments && arguments[0] == "--fetch") {
    end_with_parent();
    return fetch_for_ever(arguments[1], std::stoull(arguments[2]), arguments[3]);
  }
  return std::nullopt;
}

/// The file for results, or null when it cannot be written, which is said.
std::FILE* open_output(const std::string& name) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr)
    fmt::print(stderr, "gpuactors-bench: cannot write {}\n", name);
  return file;
}

int measure_as_ray(const gpuactors::bench::RayRun& run, const std::string& json) {
  using namespace gpuactors::bench;
  const auto results = run_ray_rows(run);
  if (results.empty()) {
    fmt::print(stderr, "gpuactors-bench: no row of Ray's has a name with \"{}\" in it; there are {}\n", run.filter,
               fmt::join(ray_row_names(), ", "));
    return 2;
  }
  fmt::print("{:<34} {:<9} {:>14} {:>12}\n", "ROW", "MODE", "PER SECOND", "+-");
  for (const auto& result : results)
    fmt::print("{:<34} {:<9} {:>14.2f} {:>12.2f}\n", result.name, result.mode, result.mean, result.deviation);
  if (json.empty())
    return 0;
  std::FILE* file = open_output(json);
  if (file == nullptr)
    return 1;
  print_ray_json(results, file);
  std::fclose(file);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  using namespace gpuactors::bench;
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  if (const auto code = run_if_child({argv + 1, argv + argc}))
    return *code;
  CLI::App program{
      "Measures gpuactors beside the floor under it: plain CAF requests (in one process and between two), bare\n"
      "OpenBLAS, memcpy and sockets, in turns, and prints ratios. Absolute times of a shared machine mean little; "
      "ratios travel.\n\n"
      "  gpuactors-bench                          all rows\n"
      "  gpuactors-bench --filter task --repeat 9 some rows, more repetitions\n"
      "  gpuactors-bench --json rows.json         for programs\n"
      "  gpuactors-bench --ray                    the rows of Ray's microbenchmark, counted as Ray does; beside Ray\n"
      "                                           itself: apps/bench/versus_ray.sh"};
  std::string filter;
  std::string json;
  int repeat = 5;
  program.add_option("--filter", filter, "Only rows whose name contains this");
  program.add_option("--repeat", repeat, "Repetitions of each row (median, least, most)")->check(CLI::Range(1, 1000));
  program.add_option("--json", json, "Write the rows as JSON to this file");
  RayRun ray;
  bool as_ray = false;
  program.add_flag("--ray", as_ray, "The rows of Ray's microbenchmark, in a cluster without and with TLS and embedded");
  program.add_option("--modes", ray.modes, "With --ray: some of plain, tls, embedded")
      ->delimiter(',')
      ->check(CLI::IsMember({"plain", "tls", "embedded"}));
  program.add_option("--seconds", ray.seconds, "With --ray: length of a round")->check(CLI::Range(0.01, 100.0));
  program.add_option("--rounds", ray.rounds, "With --ray: number of rounds")->check(CLI::Range(1, 100));
  program.add_option("--actors", ray.actors, "With --ray: actors of the rows many_actors")
      ->check(CLI::Range(1, 10'000));
  CLI11_PARSE(program, argc, argv);

  if (as_ray) {
    ray.filter = filter;
    return measure_as_ray(ray, json);
  }
  fmt::print("{} hardware threads; floors in the same process, taken in turns\n", std::thread::hardware_concurrency());
  std::vector<Row> rows;
  for (const auto& group : {call_benchmarks(), remote_benchmarks(), remote_load_benchmarks(), device_benchmarks(),
                            ledger_benchmarks(), memory_benchmarks(), transport_benchmarks(), training_benchmarks()})
    for (const auto& benchmark : group)
      if (benchmark.name.find(filter) != std::string::npos) {
        fmt::print(stderr, "running {}\n", benchmark.name);
        rows.push_back(benchmark.run(repeat));
      }
  if (rows.empty()) {
    fmt::print(stderr, "gpuactors-bench: no row's name contains \"{}\"\n", filter);
    return 2;
  }
  print_table(rows);
  if (!json.empty()) {
    std::FILE* file = open_output(json);
    if (file == nullptr)
      return 1;
    print_json(rows, file);
    std::fclose(file);
  }
  return 0;
}
