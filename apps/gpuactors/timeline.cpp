// gpuactors timeline: writes who held which device from when to when, as a trace that browsers show.
#include "cluster_options.hpp"
#include "command.hpp"
#include "incomplete.hpp"
#include "trace.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct TimelineArguments {
  ClusterOptions cluster;
  std::string file = "-";
};

Result<void> write_trace(const TimelineArguments& arguments, const Json& trace) {
  const auto text = trace.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (arguments.file == "-") {
    std::cout << text << '\n';
    return {};
  }
  errno = 0;
  std::ofstream file{arguments.file};
  file << text << '\n';
  file.close();
  if (!file)
    return fail(Errc::invalid_argument, fmt::format("--json {}: the file cannot be written: {}", arguments.file,
                                                    std::strerror(errno != 0 ? errno : EIO)));
  return {};
}

Result<void> run_timeline(const TimelineArguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_LET(state, cluster.state({.events_from = 1}));
  say_what_is_incomplete(state);
  using std::chrono::system_clock;
  std::int64_t now = std::chrono::nanoseconds{system_clock::now().time_since_epoch()}.count();
  // The broker's clock may be ahead of this machine's.
  if (!state.events().empty())
    now = std::max(now, state.events(state.events_size() - 1).unix_ns());
  return write_trace(arguments, trace_of(state, now));
}

} // namespace

Command add_timeline(CLI::App& program) {
  auto arguments = std::make_shared<TimelineArguments>();
  auto* parser = program.add_subcommand("timeline", "Who held which device from when to when, as a trace for browsers");
  parser->add_option("--json", arguments->file, "The file that it is written to. Default: -, standard output")
      ->type_name("FILE");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(fmt::format(
      "Open the file at https://ui.perfetto.dev, or in chrome://tracing. Each node is a process there, each device a "
      "track, each lease a slice with its holder's name, its share and its memory; deaths and nodes that come and go "
      "are instants of the broker. It is made of the last {} events, all that a broker keeps.\n\n"
      "Examples:\n"
      "  gpuactors timeline --json trace.json --broker 127.0.0.1:7711\n"
      "  gpuactors timeline | jq '.traceEvents[] | select(.ph == \"X\") | {{name, ts, dur}}'",
      limits::event_log));
  return {parser, [arguments] { return run_timeline(*arguments); }};
}

} // namespace gpuactors::cli
