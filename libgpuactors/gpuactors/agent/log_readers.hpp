// Those who read a node's log from elsewhere: each asks again and again, and gets what has come since.
#pragma once

#include <gpuactors/agent/log_sources.hpp>
#include <gpuactors/agent/log_store.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace gpuactors {

/// A reader asks. What its first question says of actor, count and follow stays.
struct LogQuery {
  /// Who asks.
  std::uint64_t reader = 0;
  /// Whose lines; all of the node without.
  ActorId actor{};
  /// How many of the lines that are there, the last ones.
  std::size_t count = 0;
  /// Whether those that come later are wanted, too.
  bool follow = false;
  /// How long the answer may wait for a line, `limits::log_wait` at most.
  Duration wait{};
};

/// Some lines, in their order; none when there was nothing in time, or, without `follow`, at the end.
struct LogAnswer {
  std::vector<LogLine> lines;
  /// Lines before these that were dropped, because they were not asked for in time.
  std::uint64_t dropped = 0;
};

/// The bounds of readers; others than these in tests only.
struct LogReaderBounds {
  std::size_t readers = limits::log_readers;
  /// New lines that wait for one reader.
  std::size_t lines = limits::log_follow_lines;
  /// Bytes of text in one answer, above which it has no second line.
  std::size_t answer_bytes = limits::log_answer_bytes;
  /// How long a reader is remembered that does not ask.
  Duration idle = limits::log_reader_idle;
};

/// Serves readers on a thread of its own, which also reads the files. Any thread.
class LogReaders {
public:
  using Done = std::function<void(Result<LogAnswer>)>;

  /// @param store outlives the object.
  /// @returns `unavailable` when there is no thread for it.
  static Result<std::unique_ptr<LogReaders>> make(LogStore& store, std::shared_ptr<const LogSources> sources,
                                                  LogReaderBounds bounds = {});

  LogReaders(const LogReaders&) = delete;
  LogReaders& operator=(const LogReaders&) = delete;

  /// Who waits gets `unavailable`.
  ~LogReaders();

  /// Returns at once. `done` is called once, on any thread, and must not block: with the next lines as soon as there
  /// are any, without any when the time is over. A reader's next question answers the one before, if that still waits.
  ///
  /// Errors: `queue_full` when too many read already, `invalid_argument` for a count above `limits::log_tail_lines`.
  void read(const LogQuery& query, Done done);

private:
  class State;

  explicit LogReaders(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

} // namespace gpuactors
