// LogClient: reads an actor's or a node's lines from the nodes' agents. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/actor_key.hpp>
#include <gpuactors/cluster/detail/agent_watches.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/logs.hpp>

#include <deque>
#include <map>
#include <optional>

namespace gpuactors::detail {

/// Reads a log once, from its first line to its end. Asks the broker where the lines are, and that node's agent for the
/// lines; with `follow`, keeps asking, on whichever node the actor is. After a lost connection, reads the node's log
/// again and skips lines that were shown. One thread, which blocks.
class LogClient {
public:
  /// The actor whose lines are wanted, by its id or, without one, by its name. Without either: all lines of the node.
  struct Wanted {
    std::string name;
    std::string name_space;
    ActorId actor;
  };

  LogClient(ClusterCore& core, const Wanted& wanted, const LogsOptions& options, const LogSink& sink);

  /// Reads until there are no more lines, or the sink or a stop request ends the reading.
  Result<void> run();

private:
  Result<void> locate_and_read();
  /// How long the node or the broker may be out of reach.
  [[nodiscard]] Duration longest_absence() const;

  /// The node that has the lines now.
  struct Place {
    /// Empty while the actor is on no node.
    std::string node;
    std::string address;
    /// The actor has ended for good.
    bool over = false;
  };

  /// How far a node's lines were shown: the time of the last line, and how many lines have exactly that time.
  struct Shown {
    LogTime time{};
    std::size_t at_time = 0;
  };

  Result<Place> locate();
  Result<Place> locate_node(const v1::ClusterState& state);
  Result<Place> locate_actor(const v1::ClusterState& state);
  [[nodiscard]] const v1::ActorInfo* find_actor(const v1::ClusterState& state) const;
  [[nodiscard]] std::string full_name() const;

  /// Reads the existing lines.
  Result<void> read(const Place& place);
  /// Reads existing and new lines.
  Result<void> follow(Place place);
  /// Updates `place` to where the lines are now. @returns the error that ends the reading.
  Result<void> look(Place& place);
  /// Notes that the node or the broker did not answer. @returns the error that ends the reading, if it is permanent or
  /// has lasted for too long.
  Result<void> out_of_reach(const Error& error);
  /// Reads the last lines of a node that the actor has left.
  void drain();

  Result<void> connect(const Place& place);
  void disconnect();
  [[nodiscard]] Error gone() const;
  /// Begins to read a node: at the last `count` lines, or after those that were already shown.
  void begin(const std::string& node, std::size_t count);
  /// Asks the agent once and shows the answer. @returns the number of lines in the answer.
  Result<std::size_t> ask(bool follow, Duration wait);
  void show(const v1::LogLines& lines);
  void show(LogLine line);
  [[nodiscard]] bool is_new(const LogLine& line);

  /// Waits for an answer. @returns `cancelled` if the reading is stopped meanwhile.
  template <class Message>
  Result<Message> await(Future<Message> future);
  void pause(Duration time) const;
  [[nodiscard]] bool stopped() const;

  ClusterCore& core_;
  const std::string name_;
  const std::string name_space_;
  const LogsOptions& options_;
  const LogSink& sink_;
  const LogTime started_;
  /// The actor, once it is known; an actor that has ended is matched by its name (`by_name_`).
  ActorId actor_;
  bool by_name_ = false;
  /// The sink wants no more lines.
  bool done_ = false;

  caf::strong_actor_ptr agent_;
  AgentWatches::Lost lost_;
  std::optional<TimePoint> failing_since_;
  /// The broker's `not_found` since then, if there was one.
  std::optional<Error> no_node_;

  // The current reading of one node.
  bool begun_ = false;
  std::uint64_t reader_ = 0;
  std::string node_;
  std::size_t count_ = 0;
  TimePoint asked_{};
  /// Lines up to `resume_` were shown before or are too old; `skipped_` counts the skipped lines of exactly that time.
  std::optional<Shown> resume_;
  std::size_t skipped_ = 0;

  std::map<std::string, Shown> shown_;
  /// The last lines of an actor that is matched by name, kept until all lines of the node have been read.
  bool keeps_ = false;
  std::deque<LogRecord> kept_;
};

} // namespace gpuactors::detail
