// Watch: what the dashboard knows beyond one state: the last events, how fast calls come, and the last minutes.
#pragma once

#include "history.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/gpuactors/call_times.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace gpuactors::cli::dashboard {

/// A moment by both clocks: times between states are measured, times of events are compared with those of others.
struct Moment {
  TimePoint steady;
  std::chrono::system_clock::time_point wall;
};

/// The last events of the broker, which are asked for piece by piece. One thread at a time.
class EventTail {
public:
  static constexpr std::size_t longest = 100;

  /// Takes the events of a state that was asked for from `next` on. A broker that was started again begins anew: its
  /// events come with the next state.
  void take(const v1::ClusterState& state);

  /// Returns the number of the first event that is not here yet.
  [[nodiscard]] std::uint64_t next() const noexcept {
    return next_;
  }

  /// Returns the events, the latest last.
  [[nodiscard]] const std::deque<v1::Event>& events() const noexcept {
    return events_;
  }

private:
  std::deque<v1::Event> events_;
  std::uint64_t next_ = 1;
  /// When the broker of these events started; 0 before the first state.
  std::int64_t started_ = 0;
};

/// How many calls ran, and how many of them failed.
struct CallCounts {
  std::uint64_t ran = 0;
  std::uint64_t failed = 0;
};

/// Differences between the counts of calls in one state and the next. Counts begin at 0 with each life of an actor and
/// of a node; what ran between the last state with a life and its end is not known. Nodes that come back, with actors
/// or to a broker that was started again, tell whole counts anew: these are no calls of this moment. One thread at a
/// time.
class CallMeter {
public:
  void take(TimePoint now, const v1::ClusterState& state);

  /// Returns how many calls of this method or task ran between the last two states, per second; nothing if it was not
  /// in both.
  [[nodiscard]] std::optional<double> rate(const CallRow& row) const;

  /// Returns what ran between the last two states.
  [[nodiscard]] const CallCounts& all() const noexcept {
    return all_;
  }

  /// Returns the seconds between the last two states; 0 if there was one.
  [[nodiscard]] double seconds() const noexcept {
    return seconds_;
  }

private:
  /// What tells whether counts that a state has not are 0.
  struct Known {
    std::set<std::string> nodes;
    std::set<std::string> lives;
    /// The lives of actors, and the nodes, of which it has all counts: it has room for so many.
    std::set<std::string> whole;
    /// Actors whose counts come with their node.
    std::set<std::uint64_t> returning;
    bool all_actors = true;
  };

  [[nodiscard]] static Known known_of(const v1::ClusterState& state);

  /// Whether counts that were not in the last state have grown from 0 since.
  [[nodiscard]] bool grew_from_zero(const CallRow& row) const;

  std::optional<TimePoint> taken_at_;
  /// When the broker of the last state started.
  std::int64_t started_ = 0;
  std::map<std::string, CallCounts> counts_;
  /// Of the last state.
  Known known_;
  /// What ran since the last state.
  std::map<std::string, std::uint64_t> ran_;
  CallCounts all_;
  double seconds_ = 0;
};

/// Takes one state after the other. One thread at a time.
class Watch {
public:
  void take(const Moment& now, const v1::ClusterState& state);

  /// Returns what the next state should have.
  [[nodiscard]] StateOptions question() const;

  [[nodiscard]] const EventTail& events() const noexcept {
    return events_;
  }

  [[nodiscard]] const CallMeter& calls() const noexcept {
    return calls_;
  }

  [[nodiscard]] const History& history() const noexcept {
    return history_;
  }

private:
  EventTail events_;
  CallMeter calls_;
  History history_;
};

} // namespace gpuactors::cli::dashboard
