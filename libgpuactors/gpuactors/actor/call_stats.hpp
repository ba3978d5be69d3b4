// How the calls of an actor's methods, or the tasks of a process, went: how many, how long, and with which outcome.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Durations, counted by length.
struct TimeCounts {
  /// For each of `limits::call_seconds`, how many durations were at most that and above the bound before it; last, how
  /// many were above all bounds.
  std::array<std::uint64_t, limits::call_seconds.size() + 1> counts{};
  /// The sum of all durations.
  std::uint64_t nanoseconds = 0;

  friend bool operator==(const TimeCounts&, const TimeCounts&) = default;
};

/// The counts of one method, or task, at one moment.
struct CallCounts {
  std::string name;
  /// How long calls that ran took, from their turn to their answer.
  TimeCounts ran;
  /// How long calls waited for their turn, whether they then ran or were late.
  TimeCounts waited;
  /// How many of the calls that ran were answered with an error.
  std::uint64_t failed = 0;
  /// Calls that did not run, because their deadline passed before their turn came.
  std::uint64_t late = 0;

  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

/// Counts durations by length. Any thread; no call waits or allocates.
class TimeStats {
public:
  void add(Duration time) noexcept;

  [[nodiscard]] TimeCounts counts() const;

private:
  std::array<std::atomic<std::uint64_t>, limits::call_seconds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
};

/// Counts the calls of one method, or the runs of one task. Any thread; no call waits or allocates.
class CallStats {
public:
  explicit CallStats(std::string name) : name_(std::move(name)) {
    // nop
  }

  /// Counts how long a call has waited when its turn comes.
  void waited(Duration time) noexcept {
    waited_.add(time);
  }

  /// Counts a call that took `time` until its answer.
  void ran(Duration time, bool failed) noexcept;

  /// Counts a call that did not run.
  void was_late() noexcept {
    late_.fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] CallCounts counts() const;

private:
  std::string name_;
  TimeStats ran_;
  TimeStats waited_;
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> late_{0};
};

/// The counts of a fixed set of methods or tasks, each found by its number. Any thread.
class CallTable {
public:
  /// @param names by number.
  explicit CallTable(const std::vector<std::string>& names);

  /// Returns the counts of the method or task with this number; null if it was added after the table, and is not
  /// counted.
  [[nodiscard]] CallStats* find(std::size_t number) noexcept {
    return number < stats_.size() ? &stats_[number] : nullptr;
  }

  /// Returns the counts of the methods or tasks that were called.
  [[nodiscard]] std::vector<CallCounts> counts() const;

private:
  /// A deque, because atomic numbers cannot move.
  std::deque<CallStats> stats_;
};

} // namespace gpuactors
