// LogPages: what an actor has printed last, as a page of plain text.
#pragma once

#include "page.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/gpuactors/http_page.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace gpuactors::cli::dashboard {

/// Reads logs of actors on a thread of its own, one after the other: reading blocks. All is bounded: the lines, their
/// lengths, the time that one reading may take, and how many wait for theirs. Any thread.
class LogPages {
public:
  static constexpr std::size_t most_lines = 200;
  static constexpr std::size_t longest_line = 2'000;
  static constexpr std::size_t most_waiting = 8;
  /// From the request on, the wait for others among it; less than a page waits for its reply.
  static constexpr std::chrono::seconds patience{4};

  explicit LogPages(Cluster& cluster);

  /// Ends the reading that goes on.
  ~LogPages();

  LogPages(const LogPages&) = delete;
  LogPages& operator=(const LogPages&) = delete;

  /// Replies when the actor's node has answered, of one that has ended the last one; at once if too many wait.
  void ask(ShownActor actor, PageReply reply);

  /// Ends the reading that goes on, if its time is over. Is to be called again and again.
  void check_deadline(TimePoint now);

private:
  struct Order {
    ShownActor actor;
    PageReply reply;
    TimePoint deadline;
  };

  struct Reading {
    TimePoint deadline;
    std::stop_source stop;
  };

  void run(const std::stop_token& stop);
  PageAnswer read(const ShownActor& actor, const std::stop_token& stop);

  Cluster& cluster_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Order> orders_;
  std::optional<Reading> reading_;
  // The last member: its thread uses the others.
  std::jthread thread_;
};

/// Returns a line of a log as it stands on its page: with no more than so many bytes, and with no control characters
/// that a terminal would obey. Pure; any thread.
[[nodiscard]] std::string plain_line(const std::string& line);

} // namespace gpuactors::cli::dashboard
