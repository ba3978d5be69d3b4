// gpuactors-bench: every claim of speed, measured beside its floor in one run.
#include "bars.hpp"
#include "child.hpp"
#include "floor.hpp"
#include "gpu_rows.hpp"
#include "growth.hpp"
#include "operations.hpp"
#include "ray_rows.hpp"
#include "remote_cluster.hpp"
#include "report.hpp"
#include "rows.hpp"
#include "tcp_echo.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <apps/nn/files.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace gpuactors::bench;

constexpr int nothing_to_do = 2;
/// As test programs say that they were skipped.
constexpr int left_out_all = 77;

/// What this program does as a process beside the one that measures.
std::optional<int> run_if_child(const std::vector<std::string>& arguments) {
  const auto is = [&](const char* what, std::size_t count) {
    return arguments.size() == count && arguments[0] == what;
  };
  if (is("--cluster", 5)) {
    end_with_parent();
    return serve_cluster(arguments[1],
                         {.tls = arguments[3] == "tls", .devices = arguments[2], .store = arguments[4] == "store"});
  }
  if (is("--floor-server", 2)) {
    end_with_parent();
    return serve_floor(arguments[1]);
  }
  if (is("--floor-client", 5)) {
    end_with_parent();
    return ask_floor({arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4])});
  }
  if (is("--tcp-echo", 1)) {
    end_with_parent();
    return serve_tcp_echo();
  }
  if (is("--fetch", 4)) {
    end_with_parent();
    return fetch_for_ever(arguments[1], std::stoull(arguments[2]), arguments[3]);
  }
  return std::nullopt;
}

/// What the command line asks for.
struct Wanted {
  std::string filter;
  int repeat = 5;
  bool as_ray = false;
  RayRun ray;
  std::string device = "cuda";
  std::string growth;
  bool quick = false;
  std::string operation;
  int count = 10'000;
  std::string from;
  std::vector<std::string> peers;
  std::string json;
  std::string svg;
};

int complain(const std::string& sentence, int code = 1) {
  fmt::print(stderr, "gpuactors-bench: {}\n", sentence);
  return code;
}

/// Whether a row is asked for.
bool matches(const Wanted& wanted, const Benchmark& row) {
  return row.name.find(wanted.filter) != std::string::npos;
}

/// The rows for GPUs; none where there is no GPU, and then the report says so.
std::vector<Benchmark> gpu_rows(const Wanted& wanted, Report& report) {
  const auto kind = wanted.device == "host" ? gpuactors::DeviceKind::host : gpuactors::DeviceKind::cuda;
  auto rows = gpu_benchmarks(kind);
  std::erase_if(rows, [&](const Benchmark& row) { return !matches(wanted, row); });
  if (rows.empty() || kind == gpuactors::DeviceKind::host)
    return rows;
  if (const auto gpu = look_for_gpu(); !gpu) {
    report.left_out = fmt::format("{} rows need a GPU and are left out: {} (--device host tries them on a host device)",
                                  rows.size(), gpu.error().message());
    rows.clear();
  }
  return rows;
}

void measure_rows(const Wanted& wanted, Report& report) {
  if (wanted.as_ray) {
    auto run = wanted.ray;
    run.filter = wanted.filter;
    report.rows = run_ray_rows(run);
    return;
  }
  for (const auto& group :
       {call_benchmarks(), remote_benchmarks(), remote_load_benchmarks(), device_benchmarks(), ledger_benchmarks(),
        memory_benchmarks(), transport_benchmarks(), training_benchmarks(), gpu_rows(wanted, report)})
    for (const auto& benchmark : group)
      if (matches(wanted, benchmark)) {
        fmt::print(stderr, "running {}\n", benchmark.name);
        report.rows.push_back(benchmark.run(wanted.repeat));
      }
}

/// A file that cannot be written is better known before minutes of work than after.
gpuactors::Result<void> check_place(const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  if (std::filesystem::is_directory(file))
    return gpuactors::fail(gpuactors::Errc::invalid_argument, fmt::format("{} is a folder", file));
  if (::access(folder.c_str(), W_OK) != 0)
    return gpuactors::fail(gpuactors::Errc::invalid_argument,
                           fmt::format("{} cannot be written: {}", file, std::strerror(errno)));
  return {};
}

gpuactors::Result<void> write_file(const std::string& path, const std::string& text) {
  return nn::replace_file(path, {std::as_bytes(std::span{text})});
}

gpuactors::Result<Report> make_report(const Wanted& wanted) {
  if (!wanted.from.empty()) {
    GPUACTORS_LET(read, read_report(wanted.from));
    std::erase_if(read.rows, [&](const Row& row) { return row.name.find(wanted.filter) == std::string::npos; });
    return std::move(read);
  }
  Report report;
  report.machine = this_machine();
  measure_rows(wanted, report);
  return report;
}

int run(const Wanted& wanted) {
  if (!wanted.operation.empty())
    return run_operations(wanted.operation, wanted.count), 0;
  if (!wanted.growth.empty()) {
    print_header(this_machine());
    const auto measured = measure_growth({wanted.growth, wanted.filter, wanted.quick});
    return measured ? 0 : complain(measured.error().message(), nothing_to_do);
  }
  Report rehearsal;
  for (const auto& file : wanted.peers)
    if (auto read = attach_peers(rehearsal, file); !read)
      return complain(read.error().message());
  for (const auto& file : {wanted.json, wanted.svg})
    if (!file.empty())
      if (auto placed = check_place(file); !placed)
        return complain(placed.error().message());
  auto report = make_report(wanted);
  if (!report)
    return complain(report.error().message());
  if (report->rows.empty() && !report->left_out.empty())
    return complain(report->left_out, left_out_all);
  if (report->rows.empty())
    return complain(fmt::format("no row has a name with \"{}\" in it{}", wanted.filter,
                                wanted.as_ray ? fmt::format("; there are {}", fmt::join(ray_row_names(), ", ")) : ""),
                    nothing_to_do);
  for (const auto& file : wanted.peers)
    if (auto read = attach_peers(*report, file); !read)
      return complain(read.error().message());
  print_header(report->machine);
  print_table(*report);
  if (!wanted.json.empty())
    if (auto written = write_file(wanted.json, to_json(*report)); !written)
      return complain(written.error().message());
  if (!wanted.svg.empty())
    if (auto written = write_file(wanted.svg, bars_svg(*report)); !written)
      return complain(written.error().message());
  return 0;
}

constexpr const char* about =
    "Measures gpuactors beside the floor under it: plain CAF requests (in one process and between two), bare\n"
    "OpenBLAS, memcpy and sockets, in turns, and prints ratios. Absolute times of a shared machine mean little;\n"
    "ratios travel.\n\n"
    "  gpuactors-bench                          all rows\n"
    "  gpuactors-bench --filter task --repeat 9 some rows, more repetitions\n"
    "  gpuactors-bench --json a.json --svg a.svg  for programs, and as a picture\n"
    "  gpuactors-bench --ray                    the rows of Ray's microbenchmark, counted as Ray does; beside Ray\n"
    "                                           itself: apps/bench/versus_ray.sh\n"
    "  gpuactors-bench --growth growth          how costs grow, as curves: growth/devices.csv, growth/devices.svg, "
    "...\n"
    "  gpuactors-bench --from a.json --peers ray.json   rows that were measured before, beside Ray's\n";

void add_options(CLI::App& program, Wanted& wanted) {
  program.add_option("--filter", wanted.filter, "Only rows whose name contains this");
  program.add_option("--repeat", wanted.repeat, "Repetitions of each row (median, least, most)")
      ->check(CLI::Range(1, 1000));
  program.add_option("--json", wanted.json, "Write machine and rows as JSON to this file");
  program.add_option("--svg", wanted.svg, "Draw the ratios as bars into this file");
  program.add_option("--peers", wanted.peers, "Numbers of a peer, as apps/bench/ray writes them, beside ours");
  program.add_option("--device", wanted.device, "Where the rows gpu_... run: cuda, or host to try them without a GPU")
      ->check(CLI::IsMember({"cuda", "host"}));
  auto* growth = program.add_option("--growth", wanted.growth,
                                    "Measure instead how costs grow with devices, waiting requests, actors, messages "
                                    "and nodes: a CSV and a picture of each into this folder");
  program.add_flag("--quick", wanted.quick, "With --growth: to sizes that take seconds")->needs(growth);
  auto* operation = program.add_option("--operation", wanted.operation,
                                       "Do instead one operation again and again, for a profiler: ledger (a grant and "
                                       "its release), embedded or remote (a call)");
  operation->check(CLI::IsMember(operation_names()));
  program.add_option("--count", wanted.count, "With --operation: how often")
      ->check(CLI::Range(1, 1'000'000'000))
      ->needs(operation);
  auto* from = program.add_option("--from", wanted.from, "Measure nothing: take machine and rows from this JSON");
  auto* ray = program.add_flag("--ray", wanted.as_ray,
                               "The rows of Ray's microbenchmark, in a cluster without and with TLS and embedded");
  from->excludes(ray);
  growth->excludes(from)->excludes(ray);
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

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  if (const auto code = run_if_child({argv + 1, argv + argc}))
    return *code;
  CLI::App program{about};
  Wanted wanted;
  add_options(program, wanted);
  CLI11_PARSE(program, argc, argv);
  return run(wanted);
}
