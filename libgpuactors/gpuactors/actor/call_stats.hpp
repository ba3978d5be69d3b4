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

/// The counts of one method, or task, at one moment.
struct CallCounts {
  std::string name;
  /// Calls that ran, by duration: up to each of `limits::call_seconds`, and above all of them.
  std::array<std::uint64_t, limits::call_seconds.size() + 1> ran{};
  /// Nanoseconds that all of them took.
  std::uint64_t nanoseconds = 0;
  /// Of those that ran, how many were answered with an error.
  std::uint64_t failed = 0;
  /// Calls that did not run, because their deadline passed before their turn came.
  std::uint64_t late = 0;

  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

/// Counts the calls of one method, or the runs of one task. Any thread; no call waits or allocates.
class CallStats {
public:
  explicit CallStats(std::string name) : name_(std::move(name)) {
    // nop
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
  std::array<std::atomic<std::uint64_t>, limits::call_seconds.size() + 1> ran_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> late_{0};
};

/// The counts of a fixed set of methods or tasks, each found by its number. Any thread.
class CallTable {
public:
  /// @param names by number.
  explicit CallTable(const std::vector<std::string>& names);

  /// Returns those of a number; null for one that came later than the table, which is not counted.
  [[nodiscard]] CallStats* find(std::size_t number) noexcept {
    return number < stats_.size() ? &stats_[number] : nullptr;
  }

  /// Returns the counts of those that were called at all.
  [[nodiscard]] std::vector<CallCounts> counts() const;

private:
  /// Atomic numbers do not move.
  std::deque<CallStats> stats_;
};

} // namespace gpuactors
