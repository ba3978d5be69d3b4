// gpuactors-tour: runs the programs that the library is for, checks every result and prints one table.
#include "options.hpp"
#include "programs.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <algorithm>
#include <cstdio>

namespace tour {

namespace {

constexpr int usage_error = 2;

int complain(const gpuactors::Error& error) {
  fmt::print(stderr, "gpuactors-tour: {}\n", error.message());
  return usage_error;
}

bool wanted(const TourOptions& options, const Program& program) {
  return options.only.empty() || std::find(options.only.begin(), options.only.end(), program.id) != options.only.end();
}

void run(const Program& program, const Machine& machine, bool full, Rows& rows) {
  fmt::print(stderr, "running {} ({}) ...", program.id, program.title);
  std::fflush(stderr);
  const Stopwatch watch;
  const auto first = rows.size();
  Tour tour{program.id, machine, full, rows};
  if (const auto done = program.run(tour); !done)
    tour.last_row().add_failure("could not go on: " + gpuactors::to_string(done.error()));
  tour.close();
  const auto ok = std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(),
                              [](const Row& row) { return row.ok(); });
  fmt::print(stderr, " {}, {:.1f} s\n", ok && rows.size() > first ? "done" : "FAILED", watch.seconds());
}

int run_all(const TourOptions& options) {
  if (options.cluster.connects())
    use_cluster(options.cluster.connect);
  const auto machine = Machine::look(options.cluster.embed.devices);
  if (!machine)
    return complain(machine.error());
  const Stopwatch watch;
  Rows rows;
  for (const auto& program : programs())
    if (wanted(options, program))
      run(program, *machine, options.full, rows);
  const auto failed = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.ok(); });
  if (options.json)
    fmt::print("{}", to_json(rows));
  else
    fmt::print("{}{} results, {} in {:.1f} s\n", to_table(rows), rows.size(),
               failed == 0 ? std::string{"every check held"} : fmt::format("{} FAILED", failed), watch.seconds());
  return failed == 0 && !rows.empty() ? 0 : 1;
}

int run_command(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options)
    return complain(options.error());
  return *options ? run_all(**options) : 0;
}

} // namespace

} // namespace tour

int main(int argc, char** argv) {
  // First of all, since clusters of processes start this program as their own.
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  return tour::run_command(argc, argv);
}
