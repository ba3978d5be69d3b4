// gpuactors-bench: every claim of speed, measured beside its floor in one run.
#include "bars.hpp"
#include "child.hpp"
#include "cuda/rows.hpp"
#include "floor.hpp"
#include "gpu_rows.hpp"
#include "growth.hpp"
#include "growth_curves.hpp"
#include "leftovers.hpp"
#include "operations.hpp"
#include "options.hpp"
#include "ray_rows.hpp"
#include "remote_cluster.hpp"
#include "report.hpp"
#include "rows.hpp"
#include "tcp_echo.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <apps/nn/files.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace gpuactors::bench;

constexpr int nothing_to_do = 2;
/// As test programs say that they were skipped.
constexpr int left_out_all = 77;

/// What this program does as a process beside the one that measures.
std::optional<int> run_if_child(const std::vector<std::string>& all) {
  const auto own = begin_child(all);
  if (!own)
    return std::nullopt;
  const auto& arguments = *own;
  const auto is = [&](const char* what, std::size_t count) {
    return arguments.size() == count && arguments[0] == what;
  };
  if (is("--cluster", 6))
    return serve_cluster(arguments[1], {.tls = arguments[3] == "tls",
                                        .devices = arguments[2],
                                        .store = arguments[4] == "store",
                                        .link_timeout = std::chrono::milliseconds{std::stoll(arguments[5])}});
  if (is("--floor-server", 2))
    return serve_floor(arguments[1]);
  if (is("--floor-server", 3))
    return serve_floor(arguments[1], bare_gpu_task(arguments[2]));
  if (is("--floor-client", 6))
    return ask_floor(
        {arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4]), arguments[5] == "works"});
  if (is("--tcp-echo", 1))
    return serve_tcp_echo();
  if (is("--fetch", 4))
    return fetch_for_ever(arguments[1], std::stoull(arguments[2]), arguments[3]);
  return std::nullopt;
}

int complain(const std::string& sentence, int code = 1) {
  fmt::print(stderr, "gpuactors-bench: {}\n", sentence);
  return code;
}

/// Whether a row is asked for.
bool matches(const Wanted& wanted, const Benchmark& row) {
  return wanted.exact ? row.name == wanted.filter : row.name.find(wanted.filter) != std::string::npos;
}

/// The groups of rows that need no GPU.
std::vector<std::vector<Benchmark>> groups() {
  return {call_benchmarks(),   remote_benchmarks(), remote_load_benchmarks(), device_benchmarks(),
          ledger_benchmarks(), memory_benchmarks(), transport_benchmarks(),   training_benchmarks()};
}

/// Whether the filter is the whole name of a row.
bool is_name(const Wanted& wanted) {
  auto all = groups();
  all.push_back(gpu_benchmarks(gpuactors::DeviceKind::cuda, wanted.smoke));
  return std::any_of(all.begin(), all.end(), [&](const auto& group) {
    return std::any_of(group.begin(), group.end(), [&](const auto& row) { return row.name == wanted.filter; });
  });
}

/// The rows for GPUs that can run here; the report says which are left out.
std::vector<Benchmark> gpu_rows(const Wanted& wanted, Report& report) {
  const auto wanted_of = [&](gpuactors::DeviceKind kind) {
    auto rows = gpu_benchmarks(kind, wanted.smoke);
    std::erase_if(rows, [&](const Benchmark& row) { return !matches(wanted, row); });
    return rows;
  };
  auto all = wanted_of(gpuactors::DeviceKind::cuda);
  if (all.empty())
    return all;
  if (wanted.device == "host") {
    auto rows = wanted_of(gpuactors::DeviceKind::host);
    if (rows.size() < all.size())
      report.left_out =
          fmt::format("{} rows stand beside bare CUDA and are left out on a host device", all.size() - rows.size());
    return rows;
  }
  if (const auto gpu = look_for_gpu(); !gpu) {
    report.left_out =
        fmt::format("{} rows need a GPU and are left out: {} (--device host tries those that do not stand "
                    "beside bare CUDA)",
                    all.size(), gpu.error().message());
    all.clear();
  }
  return all;
}

void print_list(const Wanted& wanted) {
  for (const auto& group : groups())
    for (const auto& row : group)
      if (matches(wanted, row))
        fmt::print("{}\n", row.name);
  for (const auto& row : gpu_benchmarks(gpuactors::DeviceKind::cuda, wanted.smoke))
    if (matches(wanted, row))
      fmt::print("{:<40} needs a GPU\n", row.name);
  if (!has_bare_cuda_benchmarks())
    fmt::print("(built without the CUDA toolkit: rows beside bare CUDA and cuBLAS are not in this program)\n");
  for (const auto& name : ray_row_names())
    if (name.find(wanted.filter) != std::string::npos)
      fmt::print("{:<40} --ray\n", name);
  for (const auto& [name, measure] : growth_curves())
    if (name.find(wanted.filter) != std::string::npos)
      fmt::print("{:<40} --growth\n", name);
}

void measure_rows(const Wanted& wanted, Report& report) {
  if (wanted.as_ray) {
    auto run = wanted.ray;
    run.filter = wanted.filter;
    report.rows = run_ray_rows(run);
    return;
  }
  auto all = groups();
  all.push_back(gpu_rows(wanted, report));
  for (const auto& group : all)
    for (const auto& benchmark : group)
      if (matches(wanted, benchmark)) {
        fmt::print(stderr, "running {}\n", benchmark.name);
        report.rows.push_back(benchmark.run(wanted.repeat));
      }
}

/// A file that cannot be written is better known before minutes of work than after.
gpuactors::Result<void> check_place(const std::string& file) {
  const auto cannot = [&](const std::string& why) {
    return gpuactors::fail(gpuactors::Errc::invalid_argument, fmt::format("{} cannot be written: {}", file, why));
  };
  std::error_code error;
  const auto type = std::filesystem::status(file, error).type();
  if (type == std::filesystem::file_type::directory)
    return gpuactors::fail(gpuactors::Errc::invalid_argument, fmt::format("{} is a folder", file));
  if (type == std::filesystem::file_type::none)
    return cannot(error.message());
  const auto folder = std::filesystem::absolute(file, error).parent_path();
  if (error || ::access(folder.c_str(), W_OK) != 0)
    return cannot(error ? error.message() : std::strerror(errno));
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

gpuactors::Result<void> attach_all(Report& report, const std::vector<std::string>& peers) {
  for (const auto& file : peers)
    GPUACTORS_TRY(attach_peers(report, file));
  return {};
}

gpuactors::Result<void> write_files(const Wanted& wanted, const Report& report) {
  if (!wanted.json.empty())
    GPUACTORS_TRY(write_file(wanted.json, to_json(report)));
  if (!wanted.svg.empty())
    GPUACTORS_TRY(write_file(wanted.svg, bars_svg(report)));
  return {};
}

int run(const Wanted& wanted) {
  if (wanted.list)
    return print_list(wanted), 0;
  if (!wanted.operation.empty())
    return run_operations(wanted.operation, wanted.count), 0;
  if (!wanted.growth.empty()) {
    print_header(this_machine());
    const auto measured = measure_growth({wanted.growth, wanted.filter, wanted.quick});
    return measured ? 0 : complain(measured.error().message(), nothing_to_do);
  }
  Report rehearsal;
  if (auto read = attach_all(rehearsal, wanted.peers); !read)
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
  // Only now the units of rows are known: what was measured is not lost for a peer that does not fit.
  const auto attached = attach_all(*report, wanted.peers);
  if (!attached && !wanted.from.empty())
    return complain(attached.error().message());
  print_header(report->machine);
  print_table(*report);
  if (auto written = write_files(wanted, *report); !written)
    return complain(written.error().message());
  return attached ? 0 : complain(attached.error().message());
}

} // namespace

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  if (const auto code = run_if_child({argv + 1, argv + argc}))
    return *code;
  Wanted wanted;
  if (const auto code = read_options(argc, argv, wanted))
    return *code;
  wanted.exact = is_name(wanted);
  clean_up_at_end();
  return run(wanted);
}
