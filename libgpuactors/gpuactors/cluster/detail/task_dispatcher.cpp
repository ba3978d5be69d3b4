#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <algorithm>
#include <atomic>

namespace gpuactors::detail {

// -- replies -------------------------------------------------------------------------------------

class TaskDispatcher::LeaseReply : public OwnReply {
public:
  LeaseReply(std::weak_ptr<TaskDispatcher> dispatcher, ShapePtr shape, std::uint64_t request)
    : dispatcher_(std::move(dispatcher)), shape_(std::move(shape)), request_(request) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    if (const auto dispatcher = dispatcher_.lock())
      dispatcher->placed(shape_, request_, content.get_as<v1::Granted>(0), handles_in(content));
  }

  void on_error(Error error) override {
    if (const auto dispatcher = dispatcher_.lock())
      dispatcher->refused(shape_, request_, error);
  }

private:
  std::weak_ptr<TaskDispatcher> dispatcher_;
  ShapePtr shape_;
  std::uint64_t request_;
};

// -- tasks ---------------------------------------------------------------------------------------

TaskDispatcher::TaskDispatcher(RequestPort& port, std::shared_ptr<BrokerLink> broker,
                               std::shared_ptr<WorkerLinks> workers, std::uint64_t client)
  : port_(port), broker_(std::move(broker)), workers_(std::move(workers)), client_(client),
    core_(workers_ != nullptr,
          std::min<std::size_t>(limits::leases_without_resources, 4 * std::max(2U, usable_cpus()))) {
  // nop
}

template <class Decide>
void TaskDispatcher::carry_out(Decide&& decide) {
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    decide(outbox.orders);
    admit(outbox);
  }
  flush(outbox);
}

void TaskDispatcher::submit(const std::shared_ptr<PendingTask>& task, std::shared_ptr<const TaskShape> wanted,
                            std::optional<Duration> queue_timeout, std::optional<Duration> deadline) {
  task->dispatcher_ = weak_from_this();
  task->queue_timeout_ = queue_timeout;
  const auto now = Clock::now();
  task->call.made = now;
  if (deadline) {
    task->call.deadline = deadline_after(now, *deadline);
    start_timer(task, Timer::deadline, *deadline, Error{Errc::deadline_exceeded, "the task's deadline passed"});
  }
  if (queue_timeout)
    start_timer(task, Timer::queue, *queue_timeout, waited_too_long());
  carry_out([&](Orders& orders) { core_.submit(task, std::move(wanted), now, orders); });
  // One timer may have ended it before the other one was known.
  if (task->finished())
    stop_timers(*task);
}

void TaskDispatcher::end(PendingTask& task, const Error& reason, Cancel how, Which which) {
  // `Cancel::force` also applies to a task that was cancelled without force and did not stop.
  if (task.finished() && how != Cancel::force)
    return;
  v1::CancelCall message;
  message.set_force(how == Cancel::force);
  caf::strong_actor_ptr worker;
  Outbox outbox;
  {
    // In one go, so that no task is withdrawn as one that waits and has begun meanwhile.
    const std::lock_guard lock{mutex_};
    if (which == Which::waiting && !TaskCore::wait_is_over(task))
      return;
    if (const auto attempt = core_.withdraw(task, outbox.orders)) {
      worker = holders_.at(attempt->lease).worker;
      message.set_lease(attempt->lease.value());
      message.set_call(attempt->call.value());
    }
    admit(outbox);
  }
  task.finish(fail(reason));
  stop_timers(task);
  flush(outbox);
  if (worker != nullptr)
    port_.tell(worker, std::move(message));
}

void TaskDispatcher::credit(const PendingTask& task, std::uint32_t items) {
  v1::StreamCredit message;
  caf::strong_actor_ptr worker;
  {
    const std::lock_guard lock{mutex_};
    const auto attempt = core_.attempt_of(task);
    if (!attempt)
      return; // the task is over, and nobody waits for credit
    worker = holders_.at(attempt->lease).worker;
    message.set_lease(attempt->lease.value());
    message.set_call(attempt->call.value());
  }
  message.set_items(items);
  port_.tell(worker, std::move(message));
}

void TaskDispatcher::answered(PendingTask& task, bool runner_suspect) {
  stop_timers(task);
  carry_out([&](Orders& orders) { core_.answered(task, runner_suspect, Clock::now(), orders); });
}

void TaskDispatcher::taken_back(CallId call, LeaseId lease) {
  carry_out([&](Orders& orders) {
    const auto task = core_.under_way({lease, call});
    // Else the answer has just come.
    if (task != nullptr && port_.forget(static_cast<const PendingTask&>(*task).ticket_))
      core_.taken_back(task, Clock::now(), orders);
  });
}

bool TaskDispatcher::retry(const std::shared_ptr<PendingTask>& task, const Error& error) {
  const auto now = Clock::now();
  const auto deadline = task->call.deadline;
  if (port_.closed() || task->finished() || (deadline != never && now >= deadline)
      || !TaskCore::use_retry(*task, error, task->call.stream))
    return false;
  // That of an attempt which was refused, and so not answered, still runs.
  stop_timers(*task);
  if (deadline != never)
    start_timer(task, Timer::deadline, deadline - now, Error{Errc::deadline_exceeded, "the task's deadline passed"});
  {
    const std::lock_guard lock{mutex_};
    TaskCore::begin_wait(*task);
  }
  if (task->queue_timeout_)
    start_timer(task, Timer::queue, *task->queue_timeout_, waited_too_long());
  carry_out([&](Orders& orders) { core_.submit_again(task, error, now, orders); });
  return true;
}

// -- leases --------------------------------------------------------------------------------------

void TaskDispatcher::reclaim(LeaseId lease) {
  carry_out([&](Orders& orders) { core_.reclaim(lease, orders); });
}

void TaskDispatcher::placed(const ShapePtr& shape, std::uint64_t request, const v1::Granted& message,
                            HolderHandles told) {
  const auto grant = core_.grant_of(shape, message);
  if (told.holder != nullptr || workers_ == nullptr)
    return granted(shape, request, grant, std::move(told));
  {
    const std::lock_guard lock{mutex_};
    core_.looks_up(grant.lease.id);
  }
  v1::FindHolder wanted;
  wanted.set_lease(message.lease().id());
  wanted.set_epoch(message.lease().epoch());
  workers_->find(message.address(), wanted,
                 [weak = weak_from_this(), shape, request, grant](Result<HolderHandles> found) {
                   const auto self = weak.lock();
                   if (self == nullptr)
                     return;
                   if (found)
                     return self->granted(shape, request, grant, std::move(*found));
                   const auto& key = grant.lease;
                   {
                     const std::lock_guard lock{self->mutex_};
                     self->core_.lost(key.id);
                   }
                   self->release(key);
                   if (!holder_has_ended(found.error()) || !self->ask_again(shape, request))
                     self->refused(shape, request, found.error());
                 });
}

void TaskDispatcher::granted(const ShapePtr& shape, std::uint64_t request, const TaskCore::Grant& grant,
                             HolderHandles handles) {
  const auto runner = handles.holder;
  const auto id = grant.lease.id;
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    holders_[id] = std::move(handles);
    if (!core_.granted(shape, request, grant, Clock::now(), outbox.orders)) {
      holders_.erase(id);
      return;
    }
    admit(outbox);
  }
  // The watch starts before the first task is sent, so that it fails every task that is under way when the runner ends.
  // `runner_down` runs first, so that the lease gets no task afterwards.
  port_.watch(runner, Error{Errc::lease_revoked, "the lease ended while the task was running"},
              [weak = weak_from_this(), id] {
                if (const auto dispatcher = weak.lock())
                  dispatcher->runner_down(id);
              });
  flush(outbox);
}

void TaskDispatcher::refused(const ShapePtr& shape, std::uint64_t request, const Error& error) {
  // With a closed or full port, the next request would be refused right here again.
  const auto for_all = error.remedy() == Remedy::give_up || error.code() == Errc::queue_full || port_.closed();
  carry_out([&](Orders& orders) { core_.refused(shape, request, error, for_all, orders); });
}

bool TaskDispatcher::ask_again(const ShapePtr& shape, std::uint64_t request) {
  {
    const std::lock_guard lock{mutex_};
    if (!core_.ended_early(shape))
      return false;
  }
  auto due = [weak = weak_from_this(), shape, request] {
    if (const auto self = weak.lock())
      self->carry_out([&](Orders& orders) { self->core_.pause_over(shape, request, orders); });
  };
  auto closed = [weak = weak_from_this(), shape, request](const Error& error) {
    if (const auto self = weak.lock())
      self->refused(shape, request, error);
  };
  // The pause gives the broker time to learn that the lease has ended.
  return port_.after(limits::redial_shortest, std::move(due), std::move(closed)).has_value();
}

void TaskDispatcher::runner_down(LeaseId lease) {
  carry_out([&](Orders& orders) { core_.runner_down(lease, orders); });
}

void TaskDispatcher::sweep(TimePoint due) {
  carry_out([&](Orders& orders) { core_.sweep(due, Clock::now(), orders); });
}

std::vector<LeaseId> TaskDispatcher::leases() const {
  const std::lock_guard lock{mutex_};
  return core_.leases();
}

void TaskDispatcher::close() {
  // Declared before the lock, so that they are destroyed after it is released.
  std::shared_ptr<void> remains;
  decltype(holders_) holders;
  const std::lock_guard lock{mutex_};
  remains = core_.close();
  holders.swap(holders_);
}

// -- orders --------------------------------------------------------------------------------------

void TaskDispatcher::admit(Outbox& outbox) {
  auto& orders = outbox.orders;
  // One that cannot be sent makes room for others, which come behind.
  for (std::size_t i = 0; i < orders.runs.size(); ++i)
    admit(std::move(orders.runs[i]), outbox);
  for (const auto& [lease, call] : orders.recalls) {
    v1::CancelCall message;
    message.set_call(call.value());
    message.set_lease(lease.value());
    message.set_take_back(true);
    outbox.recalls.emplace_back(holders_.at(lease).worker, std::move(message));
  }
  for (const auto& lease : orders.releases)
    holders_.erase(lease.id);
}

void TaskDispatcher::admit(Orders::Run run, Outbox& outbox) {
  const auto& runner = holders_.at(run.lease).holder;
  auto task = std::static_pointer_cast<PendingTask>(std::move(run.task));
  const auto ticket = port_.add(task, runner, never);
  if (!ticket)
    return core_.not_sent(std::move(task), ticket.error(), Clock::now(), outbox.orders);
  task->ticket_ = *ticket;
  TaskCore::begin(*task, port_.call_id(*ticket));
  outbox.runs.push_back({std::move(task), runner, *ticket});
}

void TaskDispatcher::flush(Outbox& outbox) {
  auto& orders = outbox.orders;
  for (std::size_t i = 0; i < outbox.runs.size(); ++i) {
    const auto& run = outbox.runs[i];
    // A copy: the runner may have ended, and another thread be sending the task again.
    auto call = run.task->call;
    call.id = port_.call_id(run.ticket);
    port_.deliver(run.ticket, run.runner, std::move(call));
  }
  mark_sent(outbox);
  for (auto& [worker, message] : outbox.recalls)
    port_.tell(worker, std::move(message));
  for (const auto& lease : orders.releases)
    release(lease);
  for (const auto& wanted : orders.acquires)
    acquire(wanted);
  for (const auto request : orders.withdrawals)
    withdraw_request(request);
  for (auto& [task, error] : orders.failures) {
    const auto failed = std::static_pointer_cast<PendingTask>(std::move(task));
    // A full port would refuse a repeated task right here again.
    if (error.code() == Errc::queue_full || !retry(failed, error)) {
      // As in `retry`.
      stop_timers(*failed);
      failed->finish(fail(error));
    }
  }
  for (const auto when : orders.sweeps)
    schedule_sweep(when);
}

void TaskDispatcher::mark_sent(const Outbox& outbox) {
  // Without other processes, no task is sent ahead, and none is recalled.
  if (workers_ == nullptr || outbox.runs.empty())
    return;
  const std::lock_guard lock{mutex_};
  for (std::size_t i = 0; i < outbox.runs.size(); ++i)
    TaskCore::sent(*outbox.runs[i].task, port_.call_id(outbox.runs[i].ticket));
}

void TaskDispatcher::acquire(const Orders::Acquire& wanted) {
  v1::AcquireLease message;
  *message.mutable_request() = TaskCore::request_of(wanted.shape);
  message.set_client_request(wanted.request);
  message.set_client(client_);
  broker_->ask(std::make_shared<LeaseReply>(weak_from_this(), wanted.shape, wanted.request), never, std::move(message));
  bool withdrawn = false;
  {
    const std::lock_guard lock{mutex_};
    withdrawn = core_.asked(wanted.request);
  }
  if (withdrawn)
    withdraw_request(wanted.request);
}

void TaskDispatcher::withdraw_request(std::uint64_t request) {
  v1::CancelAcquire message;
  message.set_client_request(request);
  message.set_client(client_);
  // With an answer, so that it is repeated behind the request that it withdraws when the broker is back.
  broker_->ask(std::make_shared<UnheardReply>(), never, std::move(message));
}

void TaskDispatcher::release(TaskCore::LeaseKey lease) {
  v1::ReleaseLease message;
  message.set_lease(lease.id.value());
  message.set_epoch(lease.epoch);
  broker_->tell(std::move(message));
}

// -- timers --------------------------------------------------------------------------------------

void TaskDispatcher::schedule_sweep(TimePoint when) {
  auto due = [weak = weak_from_this(), when] {
    if (const auto dispatcher = weak.lock())
      dispatcher->sweep(when);
  };
  // Refused only by a port that is closed: the leases end with the cluster then.
  static_cast<void>(port_.after(std::max(when - Clock::now(), Duration::zero()), std::move(due)));
}

void TaskDispatcher::start_timer(const std::shared_ptr<PendingTask>& task, Timer timer, Duration wait, Error error) {
  auto due = [weak = weak_from_this(), weak_task = std::weak_ptr{task}, error = std::move(error), timer] {
    const auto dispatcher = weak.lock();
    const auto late = weak_task.lock();
    if (dispatcher == nullptr || late == nullptr)
      return;
    dispatcher->end(*late, error, Cancel::ask, timer == Timer::queue ? Which::waiting : Which::any);
  };
  // It may be due at once, or the other one, and end the task on another thread.
  std::atomic_ref{task->timers_[static_cast<std::size_t>(timer)]} = port_.after(wait, std::move(due)).value_or(0);
}

void TaskDispatcher::stop_timers(PendingTask& task) {
  for (auto& each : task.timers_)
    if (const auto timer = std::atomic_ref{each}.load(); timer != 0)
      port_.forget(timer);
}

} // namespace gpuactors::detail
