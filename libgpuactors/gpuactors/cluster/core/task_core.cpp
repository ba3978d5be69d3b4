#include <gpuactors/cluster/core/shape.hpp>
#include <gpuactors/cluster/core/task_core.hpp>

#include <algorithm>

namespace gpuactors::detail {

Error waited_too_long() {
  return Error{Errc::no_capacity, "the task waited in the queue as long as it may"};
}

// -- tasks ----------------------------------------------------------------------------------------

void TaskCore::submit(const Task& task, std::shared_ptr<const TaskShape> wanted, TimePoint now, Orders& orders) {
  task->shape_ = std::move(wanted);
  task->number_ = ++last_task_;
  const auto& shape = shape_of(task->shape_);
  enqueue(*shape, task);
  use_idle(shape, now, orders);
}

bool TaskCore::use_retry(QueuedTask& task, const Error& error, bool streamed) {
  // What its runner had not begun when it ended runs elsewhere, whoever may run twice.
  if (error.code() == Errc::not_begun)
    return true;
  const auto& wanted = task.retry_errors;
  const bool is_wanted = is_loss(error.code()) || std::find(wanted.begin(), wanted.end(), error.code()) != wanted.end();
  if (task.retries_left == 0 || streamed || !is_wanted)
    return false;
  if (task.retries_left > 0)
    --task.retries_left;
  return true;
}

void TaskCore::submit_again(const Task& task, const Error& error, TimePoint now, Orders& orders) {
  const auto& shape = shape_of(task->shape_);
  enqueue(*shape, task);
  // Idle leases may be of the process that was lost with the attempt, and not known to be lost yet.
  if (is_loss(error.code()) || error.code() == Errc::not_begun)
    balance(shape, orders);
  else
    use_idle(shape, now, orders);
}

std::optional<TaskCore::Attempt> TaskCore::withdraw(QueuedTask& task, Orders& orders) {
  // Set before the task is finished, so that a lease which comes in between skips the task.
  const bool waits = task.state_ == QueuedTask::State::waiting && !task.withdrawn_;
  task.withdrawn_ = true;
  if (waits)
    if (const auto shape = shapes_.find(task.shape_->key); shape != shapes_.end()) {
      ++shape->second->withdrawn;
      compact(*shape->second);
      balance(ShapePtr{shape->second}, orders);
    }
  return attempt_of(task);
}

std::optional<TaskCore::Attempt> TaskCore::attempt_of(const QueuedTask& task) const {
  if (task.state_ != QueuedTask::State::under_way || slots_.count(task.lease_) == 0)
    return std::nullopt;
  return Attempt{task.lease_, task.attempt_};
}

void TaskCore::not_sent(Task task, const Error& error, TimePoint now, Orders& orders) {
  auto& slot = slots_.at(task->lease_);
  std::erase(slot.under_way, task);
  --slot.calls;
  task->state_ = QueuedTask::State::idle;
  orders.failures.push_back({std::move(task), error});
  use(slot, now, orders);
}

void TaskCore::answered(QueuedTask& task, bool runner_suspect, TimePoint now, Orders& orders) {
  const auto slot = task.state_ == QueuedTask::State::under_way ? slots_.find(task.lease_) : slots_.end();
  task.state_ = QueuedTask::State::idle;
  if (slot == slots_.end())
    return;
  auto& used = slot->second;
  std::erase_if(used.under_way, [&](const Task& known) { return known.get() == &task; });
  constexpr int memory = 8;
  used.shape->pace += (now - used.since - used.shape->pace) / memory;
  used.since = now;
  const auto most = used.shape->asked->max_calls;
  if (!used.reclaimed && !runner_suspect && (most == 0 || used.calls < most))
    use(used, now, orders);
  else if (used.under_way.empty())
    give_back(slot->first, orders);
}

TaskCore::Task TaskCore::under_way(const Attempt& attempt) const {
  const auto slot = slots_.find(attempt.lease);
  if (slot == slots_.end())
    return nullptr;
  const auto& tasks = slot->second.under_way;
  const auto found =
      std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task->attempt_ == attempt.call; });
  return found == tasks.end() ? nullptr : *found;
}

void TaskCore::taken_back(const Task& task, TimePoint now, Orders& orders) {
  auto& slot = slots_.at(task->lease_);
  const auto id = slot.lease.id;
  std::erase(slot.under_way, task);
  task->state_ = QueuedTask::State::idle;
  const auto shape = slot.shape;
  if (task->waited_long_ && !task->finished())
    orders.failures.push_back({task, waited_too_long()});
  else if (!task->finished())
    enqueue(*shape, task);
  if (slot.under_way.empty() && !slot.reclaimed)
    return use(slot, now, orders);
  if (slot.under_way.empty())
    give_back(id, orders);
  use_idle(shape, now, orders);
}

// -- leases ---------------------------------------------------------------------------------------

TaskCore::Grant TaskCore::grant_of(const ShapePtr& shape, const v1::Granted& granted) const {
  const auto& lease = granted.lease();
  Grant result{{LeaseId{lease.id()}, lease.epoch()}};
  // Then its node has started a process for it alone, which is not had anew that soon; accelerators that are no devices
  // count as resources.
  const bool own_process =
      remote_ && (request_of(shape).isolated() || lease.devices_size() > 1 || !lease.resource_units().empty());
  if (granted.wanted() && !own_process)
    result.linger = limits::lease_linger_wanted;
  return result;
}

bool TaskCore::granted(const ShapePtr& shape, std::uint64_t request, const Grant& grant, TimePoint now,
                       Orders& orders) {
  const auto& lease = grant.lease;
  std::erase(shape->requested, request);
  looked_up_.erase(lease.id);
  if (closed_)
    return false;
  auto& slot = slots_[lease.id];
  slot.lease = lease;
  slot.shape = shape;
  slot.linger = grant.linger;
  slot.reclaimed = early_reclaims_.erase(lease.id) > 0;
  shape->lost = 0;
  ++shape->leases;
  use(slot, now, orders);
  balance(shape, orders);
  return true;
}

bool TaskCore::ended_early(const ShapePtr& shape) {
  constexpr int most_lost = 2;
  // Leases that were requested together are lost together, and count once.
  if (!shape->pausing && ++shape->lost > most_lost) {
    shape->lost = 0;
    return false;
  }
  shape->pausing = true;
  return true;
}

void TaskCore::pause_over(const ShapePtr& shape, std::uint64_t request, Orders& orders) {
  shape->pausing = false;
  std::erase(shape->requested, request);
  balance(shape, orders);
}

void TaskCore::refused(const ShapePtr& shape, std::uint64_t request, const Error& error, bool for_all, Orders& orders) {
  std::erase(shape->requested, request);
  if (error.code() != Errc::cancelled) {
    // A refusal that holds for every task of this shape fails them all, any other refusal only the oldest one.
    while (auto task = pop_waiting(*shape)) {
      orders.failures.push_back({std::move(task), error});
      if (!for_all)
        break;
    }
  }
  balance(shape, orders);
}

void TaskCore::reclaim(LeaseId lease, Orders& orders) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end()) {
    constexpr std::size_t most = 1'024;
    early_reclaims_.insert(lease);
    // Lower ids are older. A lease that was given back meanwhile would stay here for good.
    if (early_reclaims_.size() > most)
      early_reclaims_.erase(early_reclaims_.begin());
    return;
  }
  slot->second.reclaimed = true;
  if (slot->second.under_way.empty())
    give_back(lease, orders);
}

void TaskCore::runner_down(LeaseId lease, Orders& orders) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end())
    return;
  // One of its tasks may have caused the end: the next tasks are sent one at a time until tasks prove short again.
  if (!slot->second.under_way.empty())
    slot->second.shape->pace = limits::tasks_ahead_wait;
  // Perhaps only the connection was lost: the runner then lives on under a lease that nobody uses any more.
  give_back(lease, orders);
}

void TaskCore::sweep(TimePoint due, TimePoint now, Orders& orders) {
  std::erase(sweeps_, due);
  std::vector<LeaseId> late;
  for (auto& [id, slot] : slots_) {
    if (slot.under_way.size() > 1) {
      need_sweep(now + limits::lease_sweep, orders);
      if (now - slot.since >= limits::tasks_ahead_wait)
        recall_waiting(slot, now, orders);
    }
    if (!slot.under_way.empty())
      continue;
    if (now - slot.idle_since >= slot.linger)
      late.push_back(id);
    else
      need_sweep_of_idle(slot, orders);
  }
  for (const auto id : late)
    give_back(id, orders);
}

std::vector<LeaseId> TaskCore::leases() const {
  std::vector<LeaseId> result;
  for (const auto& [id, slot] : slots_)
    result.push_back(id);
  result.insert(result.end(), looked_up_.begin(), looked_up_.end());
  return result;
}

std::shared_ptr<void> TaskCore::close() {
  auto remains = std::make_shared<std::pair<decltype(slots_), decltype(shapes_)>>();
  closed_ = true;
  remains->first.swap(slots_);
  remains->second.swap(shapes_);
  return remains;
}

} // namespace gpuactors::detail
