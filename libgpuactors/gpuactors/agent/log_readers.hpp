// LogReaders: remote readers of a node's log. Each reader polls, and gets the lines since its last query.
#pragma once

#include <gpuactors/agent/log_sources.hpp>
#include <gpuactors/agent/log_store.hpp>
#include <gpuactors/base/caller.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace gpuactors {

/// A reader's query. `actor`, `count` and `follow` of a reader's first query hold for all of its queries.
struct LogQuery {
  /// Identifies the reader.
  std::uint64_t reader = 0;
  /// The actor whose lines are wanted; null: all lines of the node.
  ActorId actor{};
  /// How many of the latest existing lines are wanted.
  std::size_t count = 0;
  /// Whether later lines are wanted, too.
  bool follow = false;
  /// How long the answer may wait for a line; at most `limits::log_wait`.
  Duration wait{};
  /// Who asks.
  Caller caller{};
};

/// Lines in order; none when no line came in time, or, without `follow`, at the end of the log.
struct LogAnswer {
  std::vector<LogLine> lines;
  /// How many lines before these were dropped because the reader polled too slowly.
  std::uint64_t dropped = 0;
};

/// Bounds of readers; only tests change the defaults.
struct LogReaderBounds {
  std::size_t readers = limits::log_readers;
  /// Of these, how many may have one name whose certificate is a client's, and how many places such names do not get.
  std::size_t readers_per_name = limits::log_readers_per_name;
  std::size_t readers_kept = limits::log_readers_kept;
  /// New lines that are buffered for one reader.
  std::size_t lines = limits::log_follow_lines;
  /// Bytes of text in one answer; only its first line may exceed them.
  std::size_t answer_bytes = limits::log_answer_bytes;
  /// How long a reader that does not poll is remembered.
  Duration idle = limits::log_reader_idle;
};

/// Serves readers on its own thread, which also reads the files. All methods may be called from any thread.
class LogReaders {
public:
  using Done = std::function<void(Result<LogAnswer>)>;

  /// @param store must outlive the object.
  /// @returns `unavailable` when no thread can be created.
  static Result<std::unique_ptr<LogReaders>> make(LogStore& store, std::shared_ptr<const LogSources> sources,
                                                  LogReaderBounds bounds = {});

  LogReaders(const LogReaders&) = delete;
  LogReaders& operator=(const LogReaders&) = delete;

  /// Answers waiting queries with `unavailable`.
  ~LogReaders();

  /// Returns at once. `done` is called once, on any thread, and must not block. It gets the next lines as soon as there
  /// are any, or no lines when the time is over. If a reader's previous query still waits, a new one answers it without
  /// lines.
  ///
  /// Errors: `queue_full` when there are too many readers, or too many of the caller's name, `invalid_argument` for a
  /// count above `limits::log_tail_lines`.
  void read(const LogQuery& query, Done done);

private:
  class State;

  explicit LogReaders(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

} // namespace gpuactors
