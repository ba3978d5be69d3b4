// What the workers of a node wrote: kept in files, read back, followed.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace gpuactors {

/// Which lines of a log are wanted.
struct LogFilter {
  /// Of any node when empty.
  std::string node;
  /// Of any source when empty, otherwise of any of these.
  std::vector<std::string> sources;
  /// Asked last, about what the others admit; any line when empty. On any thread, and the log waits for it: it must be
  /// quick, and call nothing of the log.
  std::function<bool(const LogLine&)> wanted = {};

  [[nodiscard]] bool admits(const LogLine& line) const;
};

/// Where a log lies and how large it may become.
struct LogOptions {
  /// Belongs to one store at a time, which a lock sees to; made, for its owner alone, if it is not there.
  std::filesystem::path folder;
  /// Bytes of a file; a longer line has a file for itself.
  std::uint64_t file_bytes = limits::log_file_bytes;
  /// Files in all, the one that is written included.
  std::size_t files = limits::log_files;
  /// Lines that wait for one follower.
  std::size_t follow_lines = limits::log_follow_lines;
  /// Told once when lines begin to be lost, and again only after they could be written meanwhile. On the thread that
  /// appends; may be empty.
  std::function<void(const std::string&)> on_warning = {};
};

/// Ends its following when it is destroyed; does nothing once the log is gone.
class LogFollowing {
public:
  LogFollowing() = default;
  LogFollowing(LogFollowing&&) noexcept = default;
  LogFollowing& operator=(LogFollowing&& other) noexcept;
  ~LogFollowing();

  /// When it returns, the callback is not running and is called no more. From the callback itself it returns at once.
  void stop();

private:
  friend class LogStore;
  struct Part;

  explicit LogFollowing(std::shared_ptr<Part> part);

  std::shared_ptr<Part> part_;
};

/// A log in plain text, one line a line as `to_string(LogLine)` renders it, in files "output-NNNNNNNNNN.log" whose
/// order is that of their names: `grep worker-3 output-*` works on it. What was appended is there after this process is
/// killed, and may be lost when the machine is. All methods may be called from any thread.
class LogStore {
public:
  /// Lines in their order, and how many lines that came after them were dropped, because the callback was too slow.
  using Callback = std::function<void(std::vector<LogLine> lines, std::uint64_t dropped)>;

  /// @returns `invalid_argument` for a folder that cannot be written or bounds of zero, `already_exists` when another
  ///          store has it, `unavailable` when there is no room or thread for it.
  static Result<std::unique_ptr<LogStore>> open(LogOptions options);

  LogStore(const LogStore&) = delete;
  LogStore& operator=(const LogStore&) = delete;

  /// Returns when no callback is running. Not from a callback.
  ~LogStore();

  /// Appends what one wrote; text with line breaks becomes several lines. What cannot be written reaches the followers
  /// all the same; once lines can be written again, a line in the log says how many are missing and why.
  void append(const LogLine& line);

  /// The last `count` lines that `filter` admits, in their order.
  /// @returns `invalid_argument` for a count above `limits::log_tail_lines`.
  [[nodiscard]] Result<std::vector<LogLine>> tail(const LogFilter& filter, std::size_t count) const;

  /// Calls `callback` with the last `count` lines that `filter` admits, if there are any, and then with each new one:
  /// none twice, none left out but those that it is told of. Called on the store's own thread, one callback at a time;
  /// it must not throw.
  /// @returns `invalid_argument` for a count above `limits::log_tail_lines`.
  [[nodiscard]] Result<LogFollowing> follow(LogFilter filter, std::size_t count, Callback callback);

private:
  friend struct LogFollowing::Part;
  class State;

  explicit LogStore(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

} // namespace gpuactors
