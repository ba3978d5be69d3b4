// How an agent's worker processes are started: this program, or the user's, with what it needs to know on its command
// line. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/agent/process_table.hpp>

#include <map>
#include <mutex>

namespace gpuactors::detail {

/// A line that a worker wrote.
struct WorkerLine {
  /// The worker's number, and what it is for.
  std::uint64_t worker = 0;
  std::string_view purpose;
  /// Whose line it is, if it says so.
  LeaseId holder;
  OutputStream stream = OutputStream::out;
  std::string_view text;
  LogTime time;
};

struct LauncherOptions {
  /// The program that workers are.
  std::string program;
  /// What all workers of the node have in common.
  v1::WorkerSetup setup;
  /// Where a line goes that a worker wrote.
  std::function<void(const WorkerLine&)> on_line;
};

/// Starts workers through a `ProcessTable` and tells the agent of their end. Any thread.
class Launcher : public WorkerLauncher {
public:
  explicit Launcher(LauncherOptions options);

  /// Whom the ends of workers are told to. Before the first start.
  void report_to(caf::strong_actor_ptr agent);

  /// Kills all workers, and waits until they are reaped.
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
    // Why it ended, often.
    std::string last_line;
  };
  // By the agent's number, which is also the tag in the table.
  std::map<std::uint64_t, Running> running_;
  std::shared_ptr<ProcessTable> table_;
  std::string why_no_table_{"the node is ending"};
};

} // namespace gpuactors::detail
