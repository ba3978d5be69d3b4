// TaskCore::Shape: the tasks of one shape that wait, and what is known of its leases.
#pragma once

#include <gpuactors/cluster/core/task_core.hpp>

#include <chrono>
#include <deque>
#include <limits>

namespace gpuactors::detail {

struct TaskCore::Shape {
  /// What its tasks ask for.
  std::shared_ptr<const TaskShape> asked;
  std::size_t most_leases = std::numeric_limits<std::size_t>::max();
  std::deque<Task> waiting;
  /// How many tasks in `waiting` were withdrawn; `compact` removes them.
  std::size_t withdrawn = 0;
  std::vector<LeaseId> idle;
  std::size_t leases = 0;
  /// Running mean of the duration of a task; starts long, so that only tasks known to be short are sent ahead.
  Duration pace = std::chrono::milliseconds{10};
  /// Requests for leases that the broker has not answered.
  std::vector<std::uint64_t> requested;
  /// How many leases in a row had ended before they could be used, and whether the pause after that is still on.
  int lost = 0;
  bool pausing = false;

  [[nodiscard]] std::size_t wanting() const noexcept {
    return waiting.size() - withdrawn;
  }
};

} // namespace gpuactors::detail
