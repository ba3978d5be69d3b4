// Launcher: starts an agent's worker processes, which run this program or the user's, with their setup on the command
// line. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/last_lines.hpp>
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/agent/process_table.hpp>

#include <map>
#include <mutex>

namespace gpuactors::detail {

/// A line of a worker's output.
struct WorkerLine {
  /// The worker's number and purpose.
  std::uint64_t worker = 0;
  std::string_view purpose;
  /// The holder that the line's mark names, if it has one.
  LeaseId holder;
  OutputStream stream = OutputStream::out;
  std::string_view text;
  LogTime time;
};

struct LauncherOptions {
  /// The programs that workers run, by their numbers in the agent's table.
  std::vector<std::string> programs;
  /// The setup that all workers of the node share.
  v1::WorkerSetup setup;
  /// Gets each line that a worker wrote, on the process table's thread.
  std::function<void(const WorkerLine&)> on_line;
};

/// Starts workers through a `ProcessTable` and reports their ends to the agent. Any thread.
class Launcher : public WorkerLauncher {
public:
  explicit Launcher(LauncherOptions options);

  /// Sets the agent that the ends of workers are reported to. Call before the first start.
  void report_to(caf::strong_actor_ptr agent);

  /// Kills all workers and waits until they are reaped.
  void close();

  Result<void> start(const WorkerCommand& command) override;
  void kill(std::uint64_t number) override;

private:
  void exited(const Process& process, const ExitStatus& status);

  LauncherOptions options_;
  std::mutex mutex_;
  caf::strong_actor_ptr agent_;
  struct Running {
    ProcessId process;
    std::string purpose;
    LastLines last_lines;
  };
  // By the agent's number of the worker, which is also its tag in the table.
  std::map<std::uint64_t, Running> running_;
  std::shared_ptr<ProcessTable> table_;
  std::string why_no_table_{"the node is ending"};
};

} // namespace gpuactors::detail
