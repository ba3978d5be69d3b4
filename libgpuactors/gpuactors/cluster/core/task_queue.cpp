// TaskCore, within: the queues of shapes, what a lease takes from them, and how many leases are asked for.
#include <gpuactors/cluster/core/shape.hpp>
#include <gpuactors/cluster/core/task_core.hpp>

#include <algorithm>

namespace gpuactors::detail {

const v1::ResourceRequest& TaskCore::request_of(const ShapePtr& shape) {
  return shape->asked->request;
}

const TaskCore::ShapePtr& TaskCore::shape_of(const std::shared_ptr<const TaskShape>& wanted) {
  auto& shape = shapes_[wanted->key];
  if (shape == nullptr) {
    shape = std::make_shared<Shape>();
    shape->asked = wanted;
    // Work that requests no resources is bounded here, since the ledger does not bound it; in this process, by the
    // machine's threads.
    const auto& request = wanted->request;
    const bool unbounded = request.gpu_units() == 0 && request.memory_bytes() == 0 && request.cpu_units() == 0
                           && request.resource_units().empty();
    if (unbounded)
      shape->most_leases = remote_ ? limits::leases_without_resources : most_leases_here_;
  }
  return shape;
}

void TaskCore::drop_if_unused(const Shape& shape) {
  if (!shape.waiting.empty() || shape.leases > 0 || !shape.requested.empty())
    return;
  const auto found = shapes_.find(shape.asked->key);
  if (found != shapes_.end() && found->second.get() == &shape)
    shapes_.erase(found);
}

void TaskCore::enqueue(Shape& shape, const Task& task) {
  if (task->withdrawn_)
    return;
  task->state_ = QueuedTask::State::waiting;
  auto& waiting = shape.waiting;
  if (waiting.empty() || waiting.back()->number_ < task->number_)
    return waiting.push_back(task);
  // Only those are before it that were queued again, too.
  waiting.insert(
      std::find_if(waiting.begin(), waiting.end(), [&](const Task& other) { return other->number_ > task->number_; }),
      task);
}

TaskCore::Task TaskCore::pop_waiting(Shape& shape) {
  while (!shape.waiting.empty()) {
    auto task = std::move(shape.waiting.front());
    shape.waiting.pop_front();
    task->state_ = QueuedTask::State::idle;
    if (task->withdrawn_)
      --shape.withdrawn;
    else if (!task->finished())
      return task;
  }
  return nullptr;
}

void TaskCore::compact(Shape& shape) {
  // Waits until half of the queue is withdrawn, so that the scan costs constant time for each withdrawn task.
  if (2 * shape.withdrawn < shape.waiting.size())
    return;
  std::erase_if(shape.waiting, [](const Task& task) {
    if (task->withdrawn_)
      task->state_ = QueuedTask::State::idle;
    return task->withdrawn_;
  });
  shape.withdrawn = 0;
}

void TaskCore::use_idle(const ShapePtr& shape, TimePoint now, Orders& orders) {
  if (shape->idle.empty() || shape->wanting() == 0)
    return balance(shape, orders);
  const auto lease = shape->idle.back();
  shape->idle.pop_back();
  use(slots_.at(lease), now, orders);
}

void TaskCore::use(Slot& slot, TimePoint now, Orders& orders) {
  const auto most = most_under_way(slot);
  while (slot.under_way.size() < most) {
    auto task = pop_waiting(*slot.shape);
    if (task == nullptr)
      break;
    take(slot, std::move(task), now, orders);
  }
  if (slot.under_way.size() > 1)
    need_sweep(now + limits::lease_sweep, orders);
  if (!slot.under_way.empty())
    return;
  if (slot.reclaimed)
    return give_back(slot.lease.id, orders);
  slot.idle_since = now;
  slot.shape->idle.push_back(slot.lease.id);
  need_sweep_of_idle(slot, orders);
  balance(slot.shape, orders);
}

void TaskCore::take(Slot& slot, Task task, TimePoint now, Orders& orders) {
  if (slot.under_way.empty())
    slot.since = now;
  ++slot.calls;
  task->state_ = QueuedTask::State::under_way;
  task->lease_ = slot.lease.id;
  task->sent_ = false;
  slot.under_way.push_back(task);
  orders.runs.push_back({std::move(task), slot.lease.id});
}

std::size_t TaskCore::most_under_way(const Slot& slot) const {
  const auto& shape = *slot.shape;
  using std::chrono::microseconds;
  constexpr microseconds short_task{500};
  // A task that runs first may take the process down with it, and tasks behind it cannot move to another lease at once:
  // only short tasks are sent ahead.
  if (!remote_ || shape.asked->max_calls > 0 || shape.asked->request.isolated() || shape.pace > short_task)
    return 1;
  // Requested leases and the other held leases get their part of the queue.
  const auto spare = shape.wanting() - std::min(shape.wanting(), shape.requested.size());
  return std::min(limits::tasks_ahead, 1 + spare / std::max<std::size_t>(1, shape.leases));
}

void TaskCore::recall_waiting(Slot& slot, TimePoint now, Orders& orders) {
  for (auto task = slot.under_way.rbegin(); task + 1 != slot.under_way.rend(); ++task)
    if ((*task)->sent_) // else the recall might overtake the task
      orders.recalls.push_back({slot.lease.id, (*task)->attempt_});
  // Other tasks of this shape are expected to be long, too, until they prove short.
  slot.shape->pace = limits::tasks_ahead_wait;
  slot.since = now;
}

void TaskCore::give_back(LeaseId lease, Orders& orders) {
  const auto slot = slots_.find(lease);
  const auto shape = slot->second.shape;
  std::erase(shape->idle, lease);
  --shape->leases;
  orders.releases.push_back(slot->second.lease);
  slots_.erase(slot);
  balance(shape, orders);
}

void TaskCore::need_sweep(TimePoint due, Orders& orders) {
  if (!sweeps_.empty() && sweeps_.back() <= due)
    return;
  sweeps_.push_back(due);
  orders.sweeps.push_back(due);
}

void TaskCore::need_sweep_of_idle(const Slot& slot, Orders& orders) {
  // A little later, so that one sweep serves many leases that came to be idle one after the other.
  need_sweep(slot.idle_since + slot.linger + slot.linger / 8, orders);
}

void TaskCore::balance(const ShapePtr& pointer, Orders& orders) {
  auto& shape = *pointer;
  const auto room = shape.most_leases - std::min(shape.most_leases, shape.leases);
  // Requests a few leases at a time, more with each grant, so that the broker is not flooded beyond what the devices
  // have.
  const auto step = std::max<std::size_t>(4, 2 * shape.leases);
  const auto wanted = std::min({shape.wanting(), room, step, limits::leases_requested});
  while (shape.requested.size() < wanted) {
    shape.requested.push_back(++last_request_);
    unasked_[last_request_] = false;
    orders.acquires.push_back({pointer, last_request_});
  }
  // Withdraws requests that no task needs any more, the latest first; keeps a few spare ones while tasks wait. A
  // request that is granted all the same brings an idle lease.
  constexpr std::size_t spare = 4;
  const auto most = shape.wanting() == 0 ? 0 : 2 * shape.wanting() + spare;
  while (shape.requested.size() > most) {
    // The broker would not know what is withdrawn before it was asked for: the thread that asks withdraws that.
    if (const auto unasked = unasked_.find(shape.requested.back()); unasked != unasked_.end())
      unasked->second = true;
    else
      orders.withdrawals.push_back(shape.requested.back());
    shape.requested.pop_back();
  }
  if (shape.wanting() == 0) {
    // What was withdrawn behind the last task to start would stay here as long as the shape, and that because of it.
    compact(shape);
    drop_if_unused(shape);
  }
}

} // namespace gpuactors::detail
