// ProcessTable: the child processes of a program; one thread starts, watches, reads and ends them.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <string_view>

namespace gpuactors {

/// Callbacks of a table. Both are called on the table's thread, one at a time, possibly before `start` has returned;
/// they may call `start` and `signal`, and must not throw. While they run, no output is read: a process that writes
/// much blocks until they are done.
struct ProcessHandlers {
  /// A process wrote a line. `text` is UTF-8 without the line end, cut after `limits::log_line_bytes`.
  std::function<void(const Process&, OutputStream, std::string_view text, LogTime)> on_line;
  /// A process has ended and was reaped, and all its output was delivered. Called once for each started process.
  std::function<void(const Process&, const ExitStatus&)> on_exit;
};

/// Starts and ends processes; needs Linux 5.3 or newer. Processes that call `die_with_parent` end with this program,
/// however it ends; the others end only through the table.
///
/// Each process gets its own process group, so that a terminal's Ctrl-C does not reach it; no descriptors except
/// /dev/null as its input and two pipes as its outputs; no blocked or ignored signals. When it ends, the rest of its
/// group is killed, and its end is told once that is gone, too, or some seconds later. The table waits for its own
/// processes and their groups only; the program may have others.
///
/// Methods may be called from any thread.
class ProcessTable {
public:
  /// @returns `unavailable` when no thread or descriptor is left.
  static Result<std::unique_ptr<ProcessTable>> make(ProcessHandlers handlers);

  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  /// Kills all processes and returns when they are reaped and `on_exit` was called for each; this may block while a
  /// driver keeps the kernel from ending a process. Must not be called from a handler.
  ~ProcessTable();

  /// Starts a process; returns once the program runs or has failed to start.
  /// @returns `invalid_argument` for a file that is not a program, `unavailable` when the machine has no process or
  ///          descriptor left, `cancelled` while the table is being destroyed.
  Result<Process> start(const Command& command);

  /// Sends a signal to a process, but not to its children.
  /// @returns `not_found` when the process has ended, `invalid_argument` for an invalid signal number.
  Result<void> signal(ProcessId id, int number);

private:
  class Loop;

  explicit ProcessTable(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

} // namespace gpuactors
