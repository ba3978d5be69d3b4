// TaskDispatcher under its lock: which lease runs which task next, and how many leases are requested.
#include <gpuactors/cluster/detail/task_dispatcher.hpp>

#include <algorithm>

namespace gpuactors::detail {

const std::shared_ptr<TaskDispatcher::Shape>& TaskDispatcher::shape_of(const TaskShape& wanted) {
  const auto& request = wanted.request;
  auto& shape = shapes_[wanted.key];
  if (shape == nullptr) {
    shape = std::make_shared<Shape>();
    shape->key = wanted.key;
    shape->request = request;
    shape->max_calls = wanted.max_calls;
    // Work that requests no resources is bounded here, since the ledger does not bound it; in this process, by the
    // machine's threads.
    const bool unbounded = request.gpu_units() == 0 && request.memory_bytes() == 0 && request.cpu_units() == 0
                           && request.resource_units().empty();
    if (unbounded && workers_ == nullptr)
      shape->most_leases = most_leases_here_;
    else if (unbounded)
      shape->most_leases = limits::leases_without_resources;
  }
  return shape;
}

void TaskDispatcher::drop_if_unused(const Shape& shape) {
  if (!shape.waiting.empty() || shape.leases > 0 || !shape.requested.empty())
    return;
  const auto found = shapes_.find(shape.key);
  if (found != shapes_.end() && found->second.get() == &shape)
    shapes_.erase(found);
}

void TaskDispatcher::enqueue(Shape& shape, const std::shared_ptr<PendingTask>& task, bool front) {
  if (task->withdrawn_)
    return;
  task->queued_ = true;
  if (front)
    shape.waiting.push_front(task);
  else
    shape.waiting.push_back(task);
}

std::shared_ptr<PendingTask> TaskDispatcher::pop_waiting(Shape& shape) {
  while (!shape.waiting.empty()) {
    auto task = std::move(shape.waiting.front());
    shape.waiting.pop_front();
    task->queued_ = false;
    if (task->withdrawn_)
      --shape.withdrawn;
    else if (!task->finished())
      return task;
  }
  return nullptr;
}

void TaskDispatcher::compact(Shape& shape) {
  // Waits until half of the queue is withdrawn, so that the scan costs constant time for each withdrawn task.
  if (2 * shape.withdrawn < shape.waiting.size())
    return;
  std::erase_if(shape.waiting, [](const auto& task) {
    task->queued_ = !task->withdrawn_;
    return task->withdrawn_;
  });
  shape.withdrawn = 0;
}

void TaskDispatcher::use(Slot& slot, Outbox& outbox) {
  const LeaseId id{slot.lease.id()};
  const auto most = most_under_way(slot);
  while (slot.under_way.size() < most) {
    auto task = pop_waiting(*slot.shape);
    if (task == nullptr)
      break;
    auto ticket = port_.add(task, slot.runner, never);
    if (!ticket) {
      outbox.failures.emplace_back(std::move(task), ticket.error());
      continue;
    }
    if (slot.under_way.empty())
      slot.since = Clock::now();
    ++slot.calls;
    task->lease_ = id;
    task->ticket_ = *ticket;
    task->sent_.store(false, std::memory_order_relaxed);
    slot.under_way.push_back(task);
    outbox.run({std::move(task), slot.runner, *ticket});
  }
  if (slot.under_way.size() > 1 && !sweeping_) {
    sweeping_ = true;
    outbox.start_sweep = true;
  }
  if (!slot.under_way.empty())
    return;
  if (slot.reclaimed) {
    give_back(id, outbox);
    return;
  }
  slot.idle_since = Clock::now();
  slot.shape->idle.push_back(id);
  balance(slot.shape, outbox);
  if (!sweeping_) {
    sweeping_ = true;
    outbox.start_sweep = true;
  }
}

std::size_t TaskDispatcher::most_under_way(const Slot& slot) const {
  const auto& shape = *slot.shape;
  using std::chrono::microseconds;
  constexpr microseconds short_task{500};
  // A task that runs first may take the process down with it, and tasks behind it cannot move to another lease at once:
  // only short tasks are sent ahead.
  if (workers_ == nullptr || shape.max_calls > 0 || shape.request.isolated() || shape.pace > short_task)
    return 1;
  // Requested leases and the other held leases get their part of the queue.
  const auto spare = shape.wanting() - std::min(shape.wanting(), shape.requested.size());
  return std::min(limits::tasks_ahead, 1 + spare / std::max<std::size_t>(1, shape.leases));
}

void TaskDispatcher::recall_waiting(Slot& slot, Outbox& outbox) const {
  // Recalls the last task first, so that the tasks are queued again in their order.
  for (auto task = slot.under_way.rbegin(); task + 1 != slot.under_way.rend(); ++task) {
    if (!(*task)->sent_.load(std::memory_order_relaxed))
      continue; // not sent yet: the recall must not overtake the task
    v1::CancelCall message;
    message.set_call(id_of(**task).value());
    message.set_lease(slot.lease.id());
    message.set_take_back(true);
    outbox.recalls.emplace_back(slot.control, std::move(message));
  }
  // Other tasks of this shape are expected to be long, too, until they prove short.
  slot.shape->pace = limits::tasks_ahead_wait;
  slot.since = Clock::now();
}

void TaskDispatcher::give_back(LeaseId lease, Outbox& outbox) {
  const auto slot = slots_.find(lease);
  const auto shape = slot->second.shape;
  std::erase(shape->idle, lease);
  --shape->leases;
  outbox.releases.push_back(std::move(slot->second.lease));
  slots_.erase(slot);
  balance(shape, outbox);
}

void TaskDispatcher::balance(const std::shared_ptr<Shape>& pointer, Outbox& outbox) {
  auto& shape = *pointer;
  const auto room = shape.most_leases - std::min(shape.most_leases, shape.leases);
  // Requests a few leases at a time, more with each grant, so that the broker is not flooded beyond what the devices
  // have.
  const auto step = std::max<std::size_t>(4, 2 * shape.leases);
  const auto wanted = std::min({shape.wanting(), room, step, limits::leases_requested});
  while (shape.requested.size() < wanted) {
    shape.requested.push_back(++last_request_);
    unsent_[last_request_] = false;
    outbox.acquires.push_back({pointer, last_request_});
  }
  // Withdraws requests that no task needs any more, the latest first; keeps a few spare ones while tasks wait. A
  // request that is granted all the same brings an idle lease.
  constexpr std::size_t spare = 4;
  const auto most = shape.wanting() == 0 ? 0 : 2 * shape.wanting() + spare;
  while (shape.requested.size() > most) {
    // The broker would not know what is withdrawn before it was asked for: the thread that asks withdraws that.
    if (const auto unsent = unsent_.find(shape.requested.back()); unsent != unsent_.end())
      unsent->second = true;
    else
      outbox.withdrawals.push_back(shape.requested.back());
    shape.requested.pop_back();
  }
  if (shape.waiting.empty())
    drop_if_unused(shape);
}

} // namespace gpuactors::detail
