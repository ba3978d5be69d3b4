#include "progress.hpp"

#include <gpuactors/base/utf8.hpp>

#include <apps/cli/plain_output.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

namespace gpuactors::cli {

namespace {

constexpr std::size_t longest_reason = 80;

std::string describe_queue(Cluster& cluster) {
  const auto state = cluster.state();
  if (!state || state->queue().empty())
    return {};
  return fmt::format(", {} waiting: {}", state->queue_size(),
                     plain_text(head_of(state->queue(0).reason(), longest_reason)));
}

} // namespace

StatusLine::StatusLine() : seen_(isatty(STDERR_FILENO) != 0) {
  // nop
}

StatusLine::~StatusLine() {
  if (shown_)
    show("");
}

void StatusLine::show(const std::string& text) {
  if (!seen_)
    return;
  shown_ = true;
  // From the start of the line, which is cleared.
  std::cerr << "\r\x1b[K" << text << std::flush;
}

void show_progress(Cluster& cluster, std::size_t count, const std::function<std::size_t(Duration)>& wait_for) {
  StatusLine line;
  if (!line.is_seen())
    return;
  const auto start = Clock::now();
  for (;;) {
    const auto ready = wait_for(std::chrono::seconds{1});
    if (ready == count)
      return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count();
    line.show(fmt::format("{} s, {} of {} done{}", seconds, ready, count, describe_queue(cluster)));
  }
}

} // namespace gpuactors::cli
