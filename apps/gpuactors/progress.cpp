#include "progress.hpp"

#include <gpuactors/base/utf8.hpp>

#include <apps/cli/plain_output.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

namespace gpuactors::cli {

namespace {

// Returns to the start of the line and clears it.
constexpr auto clear_line = "\r\x1b[K";

constexpr std::size_t longest_reason = 80;

std::string describe_queue(Cluster& cluster) {
  const auto state = cluster.state();
  if (!state || state->queue().empty())
    return {};
  return fmt::format(", {} waiting: {}", state->queue_size(),
                     plain_text(head_of(state->queue(0).reason(), longest_reason)));
}

} // namespace

void show_progress(Cluster& cluster, std::size_t count, const std::function<std::size_t(Duration)>& wait_for) {
  if (isatty(STDERR_FILENO) == 0)
    return;
  const auto start = Clock::now();
  bool shown = false;
  for (;;) {
    const auto ready = wait_for(std::chrono::seconds{1});
    if (ready == count)
      break;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count();
    std::cerr << clear_line << fmt::format("{} s, {} of {} done{}", seconds, ready, count, describe_queue(cluster))
              << std::flush;
    shown = true;
  }
  if (shown)
    std::cerr << clear_line << std::flush;
}

} // namespace gpuactors::cli
