// The child processes of a program: started, watched, heard and ended by one thread.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <string_view>

namespace gpuactors {

/// What happens to the processes of a table. Both functions are called on the table's thread, one call at a time, and
/// possibly before `start` has returned; they may call `start` and `signal`, and must not throw. While they run,
/// nothing is read: a process that writes much waits until they are done.
struct ProcessHandlers {
  /// A line was written: UTF-8, without its end, cut after `limits::log_line_bytes`.
  std::function<void(const Process&, OutputStream, std::string_view text, LogTime)> on_line;
  /// A process has ended, is reaped, and all it wrote was handed over. Called once for each that was started.
  std::function<void(const Process&, const ExitStatus&)> on_exit;
};

/// Starts processes and ends them. Those that call `die_with_parent` end with this program, however that ends; the
/// others must be ended by the table, which needs Linux 5.3 or newer.
///
/// A process gets a process group of its own, so that a terminal's Ctrl-C does not reach it; no descriptor but
/// /dev/null as its input and two pipes as its outputs; no blocked or ignored signal. What it leaves running in its
/// group is killed with it. The table waits for its own processes only; the program may have others.
///
/// Methods may be called from any thread.
class ProcessTable {
public:
  /// @returns `unavailable` when there is no thread or descriptor left for it.
  static Result<std::unique_ptr<ProcessTable>> make(ProcessHandlers handlers);

  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  /// Kills all processes and returns when they are reaped and `on_exit` was called for each. A process that the kernel
  /// cannot end, because a driver holds it, is waited for. Not from a handler.
  ~ProcessTable();

  /// Starts a process; returns once the program runs or could not be started.
  /// @returns `invalid_argument` for a file that is no program, `unavailable` when the machine has no process or
  ///          descriptor left, `cancelled` while the table is being destroyed.
  Result<Process> start(const Command& command);

  /// Sends a signal to a process, and not to its children.
  /// @returns `not_found` when it has ended, `invalid_argument` for a number that is no signal.
  Result<void> signal(ProcessId id, int number);

private:
  class Loop;

  explicit ProcessTable(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

} // namespace gpuactors
