// LogStore: the output of a node's workers, kept in files, read back and followed.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace gpuactors {

/// Selects lines of a log.
struct LogFilter {
  /// The node; any node when empty.
  std::string node;
  /// Any of these sources; any source at all when empty.
  std::vector<std::string> sources;
  /// Checked last, for lines that pass the other conditions; any line passes when empty. Called on any thread while the
  /// log waits: it must be quick and must not call the log.
  std::function<bool(const LogLine&)> wanted = {};

  [[nodiscard]] bool admits(const LogLine& line) const;
};

/// The place of a log and its bounds.
struct LogOptions {
  /// Locked by one store at a time; created with access for its owner alone if it does not exist.
  std::filesystem::path folder;
  /// Bytes of a file; a longer line gets its own file.
  std::uint64_t file_bytes = limits::log_file_bytes;
  /// Number of files, including the one being written.
  std::size_t files = limits::log_files;
  /// Lines that are buffered for one follower.
  std::size_t follow_lines = limits::log_follow_lines;
  /// Called once when lines begin to be lost, and again only if lines could be written in between. Runs on the
  /// appending thread; may be empty.
  std::function<void(const std::string&)> on_warning = {};
};

/// A subscription to a log; ends when it is destroyed. No effect once the log is gone.
class LogFollowing {
public:
  LogFollowing() = default;
  LogFollowing(LogFollowing&&) noexcept = default;
  LogFollowing& operator=(LogFollowing&& other) noexcept;
  ~LogFollowing();

  /// Ends the subscription. On return, the callback is not running and will not be called again. Called from the
  /// callback itself, returns at once.
  void stop();

private:
  friend class LogStore;
  struct Part;

  explicit LogFollowing(std::shared_ptr<Part> part);

  std::shared_ptr<Part> part_;
};

/// A plain-text log with one line for each `LogLine`, as `to_string` renders it, in files "output-NNNNNNNNNN.log" that
/// sort by age: `grep worker-3 output-*` works on it. Appended lines survive the death of this process, but not
/// necessarily of the machine. All methods may be called from any thread.
class LogStore {
public:
  /// Gets lines in order, and how many lines after them were dropped because the callback was too slow.
  using Callback = std::function<void(std::vector<LogLine> lines, std::uint64_t dropped)>;

  /// @returns `invalid_argument` for a folder that cannot be written or bounds of zero, `already_exists` when another
  ///          store has the folder, `unavailable` when the disk is full or no thread can be created.
  static Result<std::unique_ptr<LogStore>> open(LogOptions options);

  LogStore(const LogStore&) = delete;
  LogStore& operator=(const LogStore&) = delete;

  /// Waits for a running callback. Must not be called from a callback.
  ~LogStore();

  /// Appends a line; text with line breaks becomes several lines. Followers get a line even if it cannot be written;
  /// once lines can be written again, a line in the log says how many are missing and why.
  void append(const LogLine& line);

  /// The last `count` lines that `filter` admits, in order.
  /// @returns `invalid_argument` for a count above `limits::log_tail_lines`.
  [[nodiscard]] Result<std::vector<LogLine>> tail(const LogFilter& filter, std::size_t count) const;

  /// Calls `callback` with the last `count` lines that `filter` admits, if there are any, and then with new lines: none
  /// twice, and none left out except the reported drops. Callbacks run on the store's own thread, one at a time, and
  /// must not throw.
  /// @returns `invalid_argument` for a count above `limits::log_tail_lines`.
  [[nodiscard]] Result<LogFollowing> follow(LogFilter filter, std::size_t count, Callback callback);

private:
  friend struct LogFollowing::Part;
  class State;

  explicit LogStore(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

} // namespace gpuactors
