// gpuactors-bench: every claim of speed, measured beside its floor in one run.
#include "child.hpp"
#include "floor.hpp"
#include "rows.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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
      "  gpuactors-bench --json rows.json         for programs"};
  std::string filter;
  std::string json;
  int repeat = 5;
  program.add_option("--filter", filter, "Only rows whose name contains this");
  program.add_option("--repeat", repeat, "Repetitions of each row (median, least, most)")->check(CLI::Range(1, 1000));
  program.add_option("--json", json, "Write the rows as JSON to this file");
  CLI11_PARSE(program, argc, argv);

  fmt::print("{} hardware threads; floors in the same process, taken in turns\n", std::thread::hardware_concurrency());
  std::vector<Row> rows;
  for (const auto& group : {call_benchmarks(), remote_benchmarks(), remote_load_benchmarks(), device_benchmarks(),
                            ledger_benchmarks(), memory_benchmarks(), transport_benchmarks()})
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
    std::FILE* file = std::fopen(json.c_str(), "w");
    if (file == nullptr) {
      fmt::print(stderr, "gpuactors-bench: cannot write {}\n", json);
      return 1;
    }
    print_json(rows, file);
    std::fclose(file);
  }
  return 0;
}
