#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <algorithm>
#include <atomic>

namespace gpuactors::detail {

namespace {

Error waited_too_long() {
  return Error{Errc::no_capacity, "the task waited in the queue as long as it may"};
}

} // namespace

// -- replies -------------------------------------------------------------------------------------

class TaskDispatcher::LeaseReply : public OwnReply {
public:
  LeaseReply(std::weak_ptr<TaskDispatcher> dispatcher, std::shared_ptr<Shape> shape, std::uint64_t request)
    : dispatcher_(std::move(dispatcher)), shape_(std::move(shape)), request_(request) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    if (const auto dispatcher = dispatcher_.lock())
      dispatcher->placed(shape_, request_, content.get_as<v1::Granted>(0),
                         Place{content.get_as<caf::strong_actor_ptr>(1), content.get_as<caf::strong_actor_ptr>(2)});
  }

  void on_error(Error error) override {
    if (const auto dispatcher = dispatcher_.lock())
      dispatcher->refused(shape_, request_, error);
  }

private:
  std::weak_ptr<TaskDispatcher> dispatcher_;
  std::shared_ptr<Shape> shape_;
  std::uint64_t request_;
};

// -- TaskDispatcher -------------------------------------------------------------------------------

TaskDispatcher::TaskDispatcher(RequestPort& port, std::shared_ptr<BrokerLink> broker,
                               std::shared_ptr<WorkerLinks> workers, std::uint64_t client)
  : port_(port), broker_(std::move(broker)), workers_(std::move(workers)), client_(client),
    most_leases_here_(std::min<std::size_t>(limits::leases_without_resources, 4 * std::max(2U, usable_cpus()))) {
  // nop
}

void TaskDispatcher::submit(const std::shared_ptr<PendingTask>& task, std::shared_ptr<const TaskShape> wanted,
                            std::optional<Duration> queue_timeout, std::optional<Duration> deadline) {
  task->dispatcher_ = weak_from_this();
  task->shape_ = std::move(wanted);
  task->queue_timeout_ = queue_timeout;
  task->call.made = Clock::now();
  if (deadline) {
    task->call.deadline = deadline_after(task->call.made, *deadline);
    start_timer(task, Timer::deadline, *deadline, Error{Errc::deadline_exceeded, "the task's deadline passed"});
  }
  if (queue_timeout)
    start_timer(task, Timer::queue, *queue_timeout, waited_too_long());
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    const auto& shape = shape_of(*task->shape_);
    enqueue(*shape, task, false);
    if (!shape->idle.empty()) {
      const auto lease = shape->idle.back();
      shape->idle.pop_back();
      use(slots_.at(lease), outbox);
    } else {
      balance(shape, outbox);
    }
  }
  flush(outbox);
  // One timer may have ended it before the other one was known.
  if (task->finished())
    stop_timers(*task);
}

void TaskDispatcher::cancel(PendingTask& task, const Error& reason, Cancel how) {
  // `Cancel::force` also applies to a task that was cancelled without force and did not stop.
  if (task.finished() && how != Cancel::force)
    return;
  v1::CancelCall message;
  message.set_force(how == Cancel::force);
  caf::strong_actor_ptr control;
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    // `withdrawn_` is set before the task is finished, so that a lease which comes in between skips the task.
    const bool waits = task.queued_ && !std::exchange(task.withdrawn_, true);
    task.withdrawn_ = true;
    if (waits)
      if (const auto shape = shapes_.find(task.shape_->key); shape != shapes_.end()) {
        ++shape->second->withdrawn;
        compact(*shape->second);
        balance(std::shared_ptr{shape->second}, outbox);
      }
    if (const auto slot = slots_.find(task.lease_); slot != slots_.end()) {
      control = slot->second.control;
      message.set_lease(task.lease_.value());
      message.set_call(id_of(task).value());
    }
  }
  task.finish(fail(reason));
  stop_timers(task);
  flush(outbox);
  if (control != nullptr)
    port_.tell(control, std::move(message));
}

void TaskDispatcher::credit(const PendingTask& task, std::uint32_t items) {
  v1::StreamCredit message;
  caf::strong_actor_ptr control;
  {
    const std::lock_guard lock{mutex_};
    const auto slot = slots_.find(task.lease_);
    if (slot == slots_.end())
      return; // the task is over, and nobody waits for credit
    control = slot->second.control;
    message.set_lease(task.lease_.value());
    message.set_call(id_of(task).value());
  }
  message.set_items(items);
  port_.tell(control, std::move(message));
}

void TaskDispatcher::reclaim(LeaseId lease) {
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
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
      give_back(lease, outbox);
  }
  flush(outbox);
}

void TaskDispatcher::answered(PendingTask& task, bool runner_suspect) {
  stop_timers(task);
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    const auto slot = slots_.find(task.lease_);
    task.lease_ = LeaseId{};
    if (slot == slots_.end())
      return;
    auto& used = slot->second;
    std::erase_if(used.under_way, [&](const auto& known) { return known.get() == &task; });
    const auto now = Clock::now();
    constexpr int memory = 8;
    used.shape->pace += (now - used.since - used.shape->pace) / memory;
    used.since = now;
    const auto most = used.shape->max_calls;
    if (!used.reclaimed && !runner_suspect && (most == 0 || used.calls < most))
      use(used, outbox);
    else if (used.under_way.empty())
      give_back(slot->first, outbox);
  }
  flush(outbox);
}

void TaskDispatcher::taken_back(CallId call, LeaseId lease) {
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    const auto slot = slots_.find(lease);
    if (slot == slots_.end())
      return;
    auto& under_way = slot->second.under_way;
    const auto found =
        std::find_if(under_way.begin(), under_way.end(), [&](const auto& task) { return id_of(*task) == call; });
    if (found == under_way.end() || !port_.forget((*found)->ticket_))
      return; // the answer has just come
    auto task = std::move(*found);
    under_way.erase(found);
    task->lease_ = LeaseId{};
    const auto shape = slot->second.shape;
    if (task->waited_long_ && !task->finished())
      outbox.failures.emplace_back(task, waited_too_long());
    else if (!task->finished())
      enqueue(*shape, task, true);
    if (under_way.empty() && slot->second.reclaimed) {
      give_back(lease, outbox);
    } else if (under_way.empty()) {
      use(slot->second, outbox);
    } else if (!shape->idle.empty()) {
      const auto idle = shape->idle.back();
      shape->idle.pop_back();
      use(slots_.at(idle), outbox);
    } else {
      balance(shape, outbox);
    }
  }
  flush(outbox);
}

void TaskDispatcher::placed(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Granted& message,
                            Place place) {
  if (place.holder != nullptr || workers_ == nullptr)
    return granted(shape, request, message.lease(), std::move(place.holder), std::move(place.control));
  {
    const std::lock_guard lock{mutex_};
    looked_up_.insert(LeaseId{message.lease().id()});
  }
  v1::FindHolder wanted;
  wanted.set_lease(message.lease().id());
  wanted.set_epoch(message.lease().epoch());
  workers_->find(message.address(), wanted,
                 [weak = weak_from_this(), shape, request, lease = message.lease()](Result<Place> found) {
                   const auto self = weak.lock();
                   if (self == nullptr)
                     return;
                   if (found)
                     return self->granted(shape, request, lease, std::move(found->holder), std::move(found->control));
                   {
                     const std::lock_guard lock{self->mutex_};
                     self->looked_up_.erase(LeaseId{lease.id()});
                   }
                   self->release(lease);
                   if (!holder_has_ended(found.error()) || !self->ask_again(shape, request))
                     self->refused(shape, request, found.error());
                 });
}

void TaskDispatcher::release(const v1::Lease& lease) {
  v1::ReleaseLease message;
  message.set_lease(lease.id());
  message.set_epoch(lease.epoch());
  broker_->tell(std::move(message));
}

std::vector<LeaseId> TaskDispatcher::leases() const {
  std::vector<LeaseId> result;
  const std::lock_guard lock{mutex_};
  for (const auto& [id, slot] : slots_)
    result.push_back(id);
  result.insert(result.end(), looked_up_.begin(), looked_up_.end());
  return result;
}

void TaskDispatcher::close() {
  // Declared before the lock, so that they are destroyed after it is released.
  decltype(slots_) slots;
  decltype(shapes_) shapes;
  const std::lock_guard lock{mutex_};
  closed_ = true;
  slots.swap(slots_);
  shapes.swap(shapes_);
}

bool TaskDispatcher::retry(const std::shared_ptr<PendingTask>& task, const Error& error) {
  // What its runner had not begun when it ended runs elsewhere, whoever may run twice.
  const bool has_run = error.code() != Errc::not_begun;
  const auto lost = is_loss(error.code());
  const auto& wanted = task->retry_errors;
  if (port_.closed() || task->finished()
      || (has_run
          && (task->retries_left == 0 || task->call.stream
              || (!lost && std::find(wanted.begin(), wanted.end(), error.code()) == wanted.end()))))
    return false;
  const auto now = Clock::now();
  if (task->call.deadline != never && now >= task->call.deadline)
    return false;
  if (has_run && task->retries_left > 0)
    --task->retries_left;
  // That of an attempt which was refused, and so not answered, still runs.
  stop_timers(*task);
  if (task->call.deadline != never)
    start_timer(task, Timer::deadline, task->call.deadline - now,
                Error{Errc::deadline_exceeded, "the task's deadline passed"});
  {
    const std::lock_guard lock{mutex_};
    task->waited_long_ = false;
  }
  if (task->queue_timeout_)
    start_timer(task, Timer::queue, *task->queue_timeout_, waited_too_long());
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    const auto& shape = shape_of(*task->shape_);
    enqueue(*shape, task, true);
    balance(shape, outbox);
  }
  flush(outbox);
  return true;
}

void TaskDispatcher::granted(const std::shared_ptr<Shape>& shape, std::uint64_t request, const v1::Lease& lease,
                             caf::strong_actor_ptr runner, caf::strong_actor_ptr control) {
  const LeaseId id{lease.id()};
  const auto watched = runner;
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    std::erase(shape->requested, request);
    looked_up_.erase(id);
    if (closed_)
      return;
    auto& slot = slots_[id];
    slot.lease = lease;
    slot.runner = std::move(runner);
    slot.control = std::move(control);
    slot.shape = shape;
    slot.reclaimed = early_reclaims_.erase(id) > 0;
    shape->lost = 0;
    ++shape->leases;
    use(slot, outbox);
    balance(shape, outbox);
  }
  // The watch starts before the first task is sent, so that it fails every task that is under way when the runner ends.
  // `runner_down` runs first, so that the lease gets no task afterwards.
  port_.watch(watched, Error{Errc::lease_revoked, "the lease ended while the task was running"},
              [weak = weak_from_this(), id] {
                if (const auto dispatcher = weak.lock())
                  dispatcher->runner_down(id);
              });
  flush(outbox);
}

void TaskDispatcher::refused(const std::shared_ptr<Shape>& shape, std::uint64_t request, const Error& error) {
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    std::erase(shape->requested, request);
    // With a closed or full port, the next request would be refused right here again.
    const auto final = error.remedy() == Remedy::give_up || error.code() == Errc::queue_full || port_.closed();
    if (error.code() != Errc::cancelled) {
      // A refusal that holds for every task of this shape fails them all, any other refusal only the oldest one.
      while (auto task = pop_waiting(*shape)) {
        outbox.failures.emplace_back(std::move(task), error);
        if (!final)
          break;
      }
    }
    balance(shape, outbox);
  }
  flush(outbox);
}

bool TaskDispatcher::ask_again(const std::shared_ptr<Shape>& shape, std::uint64_t request) {
  {
    constexpr int most_lost = 2;
    const std::lock_guard lock{mutex_};
    // Leases that were requested together are lost together, and count once.
    if (!shape->pausing && ++shape->lost > most_lost) {
      shape->lost = 0;
      return false;
    }
    shape->pausing = true;
  }
  auto due = [weak = weak_from_this(), shape, request] {
    const auto self = weak.lock();
    if (self == nullptr)
      return;
    Outbox outbox;
    {
      const std::lock_guard lock{self->mutex_};
      shape->pausing = false;
      std::erase(shape->requested, request);
      self->balance(shape, outbox);
    }
    self->flush(outbox);
  };
  auto closed = [weak = weak_from_this(), shape, request](const Error& error) {
    if (const auto self = weak.lock())
      self->refused(shape, request, error);
  };
  // The pause gives the broker time to learn that the lease has ended.
  return port_.after(limits::redial_shortest, std::move(due), std::move(closed)).has_value();
}

void TaskDispatcher::runner_down(LeaseId lease) {
  Outbox outbox;
  {
    const std::lock_guard lock{mutex_};
    const auto slot = slots_.find(lease);
    if (slot == slots_.end())
      return;
    const auto shape = slot->second.shape;
    std::erase(shape->idle, lease);
    --shape->leases;
    // One of its tasks may have caused the end: the next tasks are sent one at a time until tasks prove short again.
    if (!slot->second.under_way.empty())
      shape->pace = limits::tasks_ahead_wait;
    // Perhaps only the connection was lost: the runner then lives on under a lease that nobody uses any more.
    outbox.releases.push_back(std::move(slot->second.lease));
    slots_.erase(slot);
    balance(shape, outbox);
  }
  flush(outbox);
}

void TaskDispatcher::sweep() {
  Outbox outbox;
  bool more = false;
  {
    const std::lock_guard lock{mutex_};
    const auto now = Clock::now();
    std::vector<LeaseId> late;
    for (auto& [id, slot] : slots_) {
      if (slot.under_way.size() > 1) {
        more = true;
        if (now - slot.since >= limits::tasks_ahead_wait)
          recall_waiting(slot, outbox);
      }
      if (!slot.under_way.empty())
        continue;
      if (now - slot.idle_since >= limits::lease_linger)
        late.push_back(id);
      else
        more = true;
    }
    for (const auto id : late)
      give_back(id, outbox);
    sweeping_ = more;
  }
  flush(outbox);
  if (more)
    schedule_sweep();
}

// -- outside of the lock --------------------------------------------------------------------------

void TaskDispatcher::Outbox::run(Run run) {
  // There is nearly always exactly one, which needs no allocation.
  if (!first_run)
    first_run.emplace(std::move(run));
  else
    runs.push_back(std::move(run));
}

void TaskDispatcher::flush(Outbox& outbox) {
  const auto deliver = [this](const Outbox::Run& run) {
    // A copy: the runner may have ended, and another thread be sending the task again.
    auto call = run.task->call;
    call.id = port_.call_id(run.ticket);
    port_.deliver(run.ticket, run.runner, std::move(call));
  };
  if (outbox.first_run)
    deliver(*outbox.first_run);
  for (const auto& run : outbox.runs)
    deliver(run);
  mark_sent(outbox);
  for (auto& [control, message] : outbox.recalls)
    port_.tell(control, std::move(message));
  for (const auto& lease : outbox.releases)
    release(lease);
  for (const auto& acquire : outbox.acquires) {
    v1::AcquireLease message;
    *message.mutable_request() = acquire.shape->request;
    message.set_client_request(acquire.request);
    message.set_client(client_);
    broker_->ask(std::make_shared<LeaseReply>(weak_from_this(), acquire.shape, acquire.request), never,
                 std::move(message));
    if (withdrawn_since_made(acquire.request))
      outbox.withdrawals.push_back(acquire.request);
  }
  for (const auto request : outbox.withdrawals) {
    v1::CancelAcquire message;
    message.set_client_request(request);
    message.set_client(client_);
    broker_->tell(std::move(message));
  }
  for (auto& [task, error] : outbox.failures)
    // A full port would refuse a repeated task right here again.
    if (error.code() == Errc::queue_full || !retry(task, error))
      task->finish(fail(error));
  if (outbox.start_sweep)
    schedule_sweep();
}

bool TaskDispatcher::withdrawn_since_made(std::uint64_t request) {
  const std::lock_guard lock{mutex_};
  return unsent_.extract(request).mapped();
}

void TaskDispatcher::mark_sent(const Outbox& outbox) {
  // Without other processes, no task is sent ahead, and none is recalled.
  if (workers_ == nullptr || !outbox.first_run)
    return;
  const auto mark = [](const Outbox::Run& run) {
    // It may be under way again by now, and not be sent yet.
    if (run.task->ticket_ == run.ticket)
      run.task->sent_.store(true, std::memory_order_relaxed);
  };
  const std::lock_guard lock{mutex_};
  mark(*outbox.first_run);
  for (const auto& run : outbox.runs)
    mark(run);
}

void TaskDispatcher::schedule_sweep() {
  auto due = [weak = weak_from_this()] {
    if (const auto dispatcher = weak.lock())
      dispatcher->sweep();
  };
  // Refused only by a port that is closed: the leases end with the cluster then.
  static_cast<void>(port_.after(limits::lease_linger, std::move(due)));
}

void TaskDispatcher::start_timer(const std::shared_ptr<PendingTask>& task, Timer timer, Duration wait, Error error) {
  auto due = [weak = weak_from_this(), weak_task = std::weak_ptr{task}, error = std::move(error), timer] {
    const auto dispatcher = weak.lock();
    const auto late = weak_task.lock();
    if (dispatcher == nullptr || late == nullptr)
      return;
    if (timer == Timer::queue) {
      const std::lock_guard lock{dispatcher->mutex_};
      late->waited_long_ = true;
      if (late->lease_)
        return;
    }
    dispatcher->cancel(*late, error);
  };
  // It may be due at once, or the other one, and end the task on another thread.
  std::atomic_ref{task->timers_[static_cast<std::size_t>(timer)]} = port_.after(wait, std::move(due)).value_or(0);
}

void TaskDispatcher::stop_timers(PendingTask& task) {
  for (auto& each : task.timers_)
    if (const auto timer = std::atomic_ref{each}.load(); timer != 0)
      port_.abandon(timer, Error{Errc::cancelled, "the task is over"});
}

} // namespace gpuactors::detail
