// LogClient: reads an actor's or a node's lines from the nodes' agents. Internal to the cluster layer.
#pragma once

#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/logs.hpp>

#include <atomic>
#include <deque>
#include <map>
#include <optional>

namespace gpuactors::detail {

/// One reading, from its first line to its end. Asks the broker where to read, and that node's agent for the lines;
/// with `follow` again and again, on whichever node the actor is. What is lost with a connection is read again from the
/// node's log, and what was shown is left out. One thread, which waits.
class LogClient {
public:
  LogClient(ClusterCore& core, std::string_view actor, const LogsOptions& options, const LogSink& sink);

  /// Reads until there is no more, or nobody wants more.
  Result<void> run();

private:
  /// Where the lines are now.
  struct Place {
    /// None while the actor is on no node.
    std::string node;
    std::string address;
    /// The actor is no more.
    bool over = false;
  };

  /// How far the lines of a node were shown: the time of the last one, and how many have just that.
  struct Shown {
    LogTime time{};
    std::size_t at_time = 0;
  };

  Result<Place> locate();
  Result<Place> locate_node(const v1::ClusterState& state);
  Result<Place> locate_actor(const v1::ClusterState& state);
  [[nodiscard]] const v1::ActorInfo* find_actor(const v1::ClusterState& state) const;
  [[nodiscard]] std::string full_name() const;

  /// Reads what is there.
  Result<void> read(const Place& place);
  /// Reads what comes, too.
  Result<void> follow(Place place);
  /// Looks where the lines are by now. @returns the error that ends the reading.
  Result<void> look(Place& place);
  /// Something that should answer does not. @returns the error once that has gone on for too long.
  Result<void> out_of_reach(const Error& error);
  /// Takes the last lines of a node that the actor has left.
  void drain();

  Result<void> connect(const Place& place);
  void disconnect();
  [[nodiscard]] Error gone() const;
  /// Begins to read a node: with the last `count` lines, or after those that were shown before.
  void begin(const std::string& node, std::size_t count);
  /// Asks once, and shows what comes. @returns how many lines that were.
  Result<std::size_t> ask(bool follow, Duration wait);
  void show(const v1::LogLines& lines);
  void show(LogLine line);
  [[nodiscard]] bool is_new(const LogLine& line);

  /// The answer, or `cancelled` when nobody waits for it any more.
  template <class Message>
  Result<Message> await(Future<Message> future);
  void pause(Duration time) const;
  [[nodiscard]] bool stopped() const;

  ClusterCore& core_;
  const std::string name_;
  const LogsOptions& options_;
  const LogSink& sink_;
  const LogTime started_;
  /// The actor, once it is known; the lines of one that has ended are known by its name.
  ActorId actor_;
  bool by_name_ = false;
  /// The sink wants no more.
  bool done_ = false;

  caf::strong_actor_ptr agent_;
  std::shared_ptr<std::atomic<bool>> lost_;
  std::optional<TimePoint> failing_since_;
  /// What the broker said since then, if it was that.
  std::optional<Error> no_node_;

  // The reading under way.
  bool begun_ = false;
  std::uint64_t reader_ = 0;
  std::string node_;
  std::size_t count_ = 0;
  TimePoint asked_{};
  /// Lines up to there were shown before, or are too old; and how many of just that time were left out.
  std::optional<Shown> resume_;
  std::size_t skipped_ = 0;

  std::map<std::string, Shown> shown_;
  /// The last lines of an actor that is known by its name, kept until all were looked at.
  bool keeps_ = false;
  std::deque<LogRecord> kept_;
};

} // namespace gpuactors::detail
