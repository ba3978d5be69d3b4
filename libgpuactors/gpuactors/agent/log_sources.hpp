// Who writes the lines of a node's log: actors, tasks, and worker processes where nobody knows better.
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
  /// An actor's id, or the number that the agent gave a worker; a later agent of the node counts anew.
  std::uint64_t id = 0;
  /// An actor's name, or its type if it has none; a task's; what a worker is for.
  std::string name;

  friend bool operator==(const LogSource&, const LogSource&) = default;
};

/// As it stands in the log; control characters of the name become spaces.
[[nodiscard]] std::string to_string(const LogSource& source);

/// Reads what `to_string` renders; anything else is of kind `other`, with all of the text as its name.
[[nodiscard]] LogSource parse_log_source(std::string_view text);

/// Whom the lines of workers belong to. The agent says what runs where, before it runs; lines are looked up as they
/// come. Any thread.
class LogSources {
public:
  /// What writes the lines of a worker that carry no mark. Before it is started.
  void add_worker(std::uint64_t worker, const LogSource& source);

  /// A holder begins in a worker, at a time of the lines' clock.
  void add_holder(std::uint64_t worker, LeaseId lease, const LogSource& source, LogTime since);

  /// It has ended; what it wrote may still be under way, so the last of them are remembered until the worker ends.
  void remove_holder(std::uint64_t worker, LeaseId lease);

  /// It has ended and all that it wrote was looked up.
  void remove_worker(std::uint64_t worker);

  /// The source of a line with the mark of `holder`, if it has any; a mark that names no holder of this worker counts
  /// for nothing.
  [[nodiscard]] std::string source_of(std::uint64_t worker, LeaseId holder) const;

  /// Whether a line is of this actor: it says so, or it is of a worker that has this actor in it, and nobody else's.
  [[nodiscard]] bool concerns(ActorId actor, const LogLine& line) const;

private:
  struct Worker {
    std::string source;
    std::map<LeaseId, std::string> holders;
    std::deque<LeaseId> ended;
  };

  /// An actor and a worker that it is or was in.
  using Stay = std::pair<ActorId, std::uint64_t>;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Worker> workers_;
  std::map<Stay, LogTime> stays_;
  // The oldest first.
  std::deque<Stay> order_;
};

} // namespace gpuactors
