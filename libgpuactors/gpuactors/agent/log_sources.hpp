// LogSources: attributes the lines of a node's log to actors and tasks, or else to worker processes.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gpuactors {

/// A source of lines, as `LogLine::source` names it: "actor 12 trainer", "task matmul", "worker 3 device 0".
struct LogSource {
  enum class Kind : std::uint8_t { other, actor, task, worker };

  Kind kind = Kind::other;
  /// An actor's id, or the agent's number of a worker, which starts over when the node is restarted.
  std::uint64_t id = 0;
  /// An actor's name, or its type if it has none; a task's name; the purpose of a worker.
  std::string name;

  friend bool operator==(const LogSource&, const LogSource&) = default;
};

/// Renders a source as in the log; control characters in the name become spaces.
[[nodiscard]] std::string to_string(const LogSource& source);

/// Parses the output of `to_string`; any other text has the kind `other` and is the name.
[[nodiscard]] LogSource parse_log_source(std::string_view text);

/// Maps the lines of workers to their sources. The agent registers holders before they run; the source of each line is
/// looked up when it arrives. Any thread.
class LogSources {
public:
  /// Sets the source of a worker's unmarked lines. Call before the worker is started.
  void add_worker(std::uint64_t worker, const LogSource& source);

  /// A holder starts in a worker. `since` is a time of the clock that stamps lines.
  void add_holder(std::uint64_t worker, LeaseId lease, const LogSource& source, LogTime since);

  /// A holder has ended. Its output may still be in the pipe, so the last `limits::log_ended_holders` ended holders are
  /// remembered until the worker ends.
  void remove_holder(std::uint64_t worker, LeaseId lease);

  /// The worker has ended, and all its lines were looked up.
  void remove_worker(std::uint64_t worker);

  /// The source of a line that carries the mark of `holder`; the worker's own source for a line without a mark, or with
  /// a mark that names no holder of this worker.
  [[nodiscard]] std::string source_of(std::uint64_t worker, LeaseId holder) const;

  /// Whether a line may be this actor's: its source is the actor, or a worker in which the actor has run since before
  /// the line.
  [[nodiscard]] bool concerns(ActorId actor, const LogLine& line) const;

private:
  struct Worker {
    std::string source;
    std::map<LeaseId, std::string> holders;
    std::deque<LeaseId> ended;
  };

  /// An actor and a worker that the actor runs or ran in.
  using Stay = std::pair<ActorId, std::uint64_t>;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Worker> workers_;
  std::map<Stay, LogTime> stays_;
  // Keys of `stays_`, oldest first; bounded by `limits::log_stays`.
  std::deque<Stay> order_;
};

} // namespace gpuactors
