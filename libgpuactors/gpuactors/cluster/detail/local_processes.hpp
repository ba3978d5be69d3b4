// LocalProcesses: the processes of a LocalCluster, by name. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/process_table.hpp>
#include <gpuactors/cluster/detail/local_role.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace gpuactors::detail {

/// Starts, watches and hurts them. Members may be called from any thread, for one name by one thread at a time.
class LocalProcesses {
public:
  using Sink = std::function<void(std::string_view process, std::string_view line)>;

  /// @param sink gets the lines that the processes write, on the thread of the process table.
  static Result<std::unique_ptr<LocalProcesses>> make(Sink sink);

  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;
  /// Kills all that is left.
  ~LocalProcesses();

  /// Starts this program with a role. There is none of that name.
  Result<void> start(const std::string& name, const LocalRole& role, std::map<std::string, std::string> environment);

  /// Waits until a started process is ready. @returns the text of its report, or why it is not ready; then it is gone.
  Result<std::string> await_ready(const std::string& name);

  /// Asks a process to end; a frozen one goes on first.
  Result<void> ask_to_end(std::string_view name);

  /// Waits until it has ended. @returns `deadline_exceeded` if it had to be killed.
  Result<void> await_end(std::string_view name, Duration patience);

  /// Has it end now: asks it again, since a node with a grace goes on until the second time. Kills it in the end.
  void insist_on_end(std::string_view name, Duration patience);

  /// Kills a process and all below it; returns when they are gone.
  Result<void> kill(std::string_view name);

  Result<void> freeze(std::string_view name);
  Result<void> resume(std::string_view name);

  [[nodiscard]] Result<pid_t> pid(std::string_view name) const;

  /// The names of those that run.
  [[nodiscard]] std::vector<std::string> names() const;

  /// The last lines of all.
  [[nodiscard]] std::string output() const;

private:
  struct Running {
    Process process;
    bool began = false;
    std::optional<std::string> ready;
    std::optional<Error> failed;
    bool strayed = false;
    std::string last_line;
  };

  explicit LocalProcesses(Sink sink) : sink_(std::move(sink)) {
    // nop
  }

  void on_line(const Process& process, OutputStream stream, std::string_view line);
  void on_exit(const Process& process, const ExitStatus& status);
  void take_report(Running& running, LocalReport report);
  /// What `await_ready` returns as soon as it is known; with the lock held.
  std::optional<Result<std::string>> outcome(const std::string& name) const;
  [[nodiscard]] Result<Process> find(std::string_view name) const;
  /// @returns whether it has ended.
  bool wait_for_end(std::string_view name, Duration time);

  const Sink sink_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Running, std::less<>> running_;
  /// How those that have ended did, until they are started again.
  struct Ended {
    Running last;
    std::string how;
  };
  std::map<std::string, Ended, std::less<>> ended_;
  std::deque<std::string> lines_;
  std::unique_ptr<ProcessTable> table_;
};

} // namespace gpuactors::detail
