// QueuedTask: the state that decides where and when a task runs, apart from the task itself. Plumbing behind Cluster.
#pragma once

#include <gpuactors/base/error.hpp>
#include <gpuactors/base/ids.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpuactors::detail {

class TaskCore;
struct TaskShape;

/// A task as `TaskCore` sees it: waiting in the queue of its shape, under way to a lease or running there, or neither.
class QueuedTask {
public:
  QueuedTask() = default;
  QueuedTask(const QueuedTask&) = delete;
  QueuedTask& operator=(const QueuedTask&) = delete;
  virtual ~QueuedTask() = default;

  /// Returns whether the task has a result, so that it need not run any more. Any thread.
  [[nodiscard]] virtual bool finished() const noexcept = 0;

  /// How often the task may be repeated when its worker dies; -1: any number of times. Set before it is submitted.
  int retries_left = 0;
  /// Errors of the task itself after which it may be repeated, too. Set before it is submitted.
  std::vector<Errc> retry_errors;

private:
  friend class TaskCore;

  enum class State : std::uint8_t { idle, waiting, under_way };

  std::shared_ptr<const TaskShape> shape_;
  State state_ = State::idle;
  // In the order in which tasks were submitted.
  std::uint64_t number_ = 0;
  // The caller has given it up: it must not start any more.
  bool withdrawn_ = false;
  // Its time in the queue was over while it was under way.
  bool waited_long_ = false;
  // It has left for its lease, so that it may be recalled from there.
  bool sent_ = false;
  // While it is under way: the lease, and the id of this attempt.
  LeaseId lease_;
  CallId attempt_;
};

} // namespace gpuactors::detail
