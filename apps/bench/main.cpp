// gpuactors-bench: every claim of speed, measured beside its floor in one run.
#include "rows.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <thread>

int main(int argc, char** argv) {
  using namespace gpuactors::bench;
  CLI::App program{
      "Measures gpuactors beside the floor under it: plain CAF requests and bare OpenBLAS, in one process and\n"
      "in turns, and prints ratios. Absolute times of a shared machine mean little; ratios travel.\n\n"
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
  for (const auto& group :
       {call_benchmarks(), device_benchmarks(), ledger_benchmarks(), memory_benchmarks(), transport_benchmarks()})
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
