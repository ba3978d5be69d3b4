#include <gpuactors/actor/actor_shell.hpp>
#include <gpuactors/actor/task_runner.hpp>
#include <gpuactors/agent/core/device_faults.hpp>
#include <gpuactors/agent/core/usage_reports.hpp>
#include <gpuactors/agent/usage.hpp>
#include <gpuactors/agent/worker.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

namespace gpuactors {

namespace {

// The id of a `Tick` for usage reports; other ids are leases whose grace is over. No lease has this id.
constexpr std::uint64_t tick_usage = 0;
// What it says of a lease: 0, that the grace is over; or that it soon is.
constexpr std::uint32_t waits_end = 1;

bool is_isolated(const v1::StartRunner& order) {
  return order.isolated();
}

bool is_isolated(const v1::StartActor& order) {
  return order.spec().isolated() || order.request().isolated();
}

std::string name_for_people(const v1::StartRunner&) {
  return {};
}

std::string name_for_people(const v1::StartActor& order) {
  const auto& spec = order.spec();
  return "actor " + (spec.name().empty() ? fmt::format("{} {}", spec.type(), order.actor()) : spec.name());
}

Duration stuck_after(const v1::StartRunner&) {
  return {};
}

Duration stuck_after(const v1::StartActor& order) {
  return from_milliseconds(order.spec().stuck_after_ms());
}

LeaseInfo info_of(const v1::Lease& lease, const std::vector<std::shared_ptr<Device>>& devices) {
  auto result = to_lease_info(lease);
  result.environment = environment_of(result, devices);
  return result;
}

} // namespace

Worker::Worker(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, caf::strong_actor_ptr agent,
               bool hands_out_handles, std::function<void()> leave)
  : Guarded(config, services->lanes), services_(std::move(services)), agent_(std::move(agent)),
    hands_out_handles_(hands_out_handles), leave_(std::move(leave)) {
  // nop
}

WorkerHandle::behavior_type Worker::make_behavior() {
  return {
      [this](const v1::StartRunner& order) { start<TaskRunner>(order); },
      [this](const v1::StartActor& order, const Payload& config) { start<ActorShell>(order, config); },
      [this](const v1::EndLease& order) { end(order); },
      [this](const v1::LeaseEnded& message) { ended(message); },
      [this](const v1::FindHolder& message) { return find(message); },
      [this](const v1::CancelCall& message) { cancel(message); },
      [this](const v1::StreamCredit& message) {
        if (auto* slot = slot_for_sender(LeaseId{message.lease()}))
          slot->control->credit(CallId{message.call()}, message.items());
      },
      [this](const v1::Tick& message) {
        if (message.id() == tick_usage)
          report_usage();
        else if (message.what() == waits_end)
          end_waits(LeaseId{message.id()});
        else
          grace_over(LeaseId{message.id()});
      },
      [this](const v1::DeviceFault& message) { revoke_on(message); },
      [this](const v1::EndProcess& message) { give_up(message); },
  };
}

void Worker::on_exit() {
  for (auto& [lease, slot] : slots_) {
    slot.control->stop_all();
    caf::anon_send_exit(slot.holder, caf::exit_reason::user_shutdown);
  }
  slots_.clear();
  agent_ = nullptr;
}

template <class Holder>
Worker::Slot* Worker::open_slot(const v1::Lease& lease) {
  auto control = std::make_shared<HolderControl>();
  auto holder = services_->threads->spawn<Holder>(system(), services_, control, info_of(lease, services_->devices));
  if (!holder) {
    caf_version::post(agent_, lease_end(lease.id(), lease.epoch(), holder.error()));
    return nullptr;
  }
  auto& slot = slots_[LeaseId{lease.id()}];
  slot.epoch = lease.epoch();
  if constexpr (std::is_same_v<Holder, TaskRunner>)
    slot.tasks_of = lease.quota_owner();
  for (const auto& device : lease.devices())
    slot.devices.push_back(device.index());
  slot.control = std::move(control);
  slot.holder = std::move(*holder);
  slot.control->on_end([worker = caf::actor_cast<caf::strong_actor_ptr>(this), control = std::weak_ptr{slot.control},
                        ended = lease_end(lease.id(), lease.epoch())]() mutable {
    const auto known = control.lock();
    if (known != nullptr)
      for (const auto index : known->lost_devices())
        ended.add_lost_devices(index);
    if (ended.lost_devices_size() > 0)
      set_error(ended, {Errc::context_lost, "a sticky error lost its device to its process"});
    if (const auto own = known != nullptr ? known->ends_itself() : std::nullopt) {
      set_error(ended, *own);
      ended.set_by_itself(true);
    } else if (const auto why = known != nullptr ? known->revoked() : std::nullopt; why && ended.error() == 0) {
      set_error(ended, *why);
    }
    caf_version::enqueue(worker, nullptr, 0, ended);
  });
  slot.control->on_save([agent = agent_, id = lease.id(), epoch = lease.epoch()](const Payload& state) {
    v1::ActorSaved message;
    message.set_lease(id);
    message.set_epoch(epoch);
    message.set_type(std::string{state.type_name()});
    message.set_data(std::string{state.bytes()});
    caf_version::post(agent, std::move(message));
  });
  if (!std::exchange(reporting_, true))
    caf_version::post_later(this, limits::usage_report, v1::Tick{});
  // CAF runs attached functors in reverse order. This one is attached before anybody else has the handle, so it runs
  // after all others: whoever learns that the lease is free finds its handles marked as down.
  slot.holder->attach_functor([control = slot.control] { control->half_ended(); });
  return &slot;
}

template <class Holder, class Order, class... Ins>
void Worker::start(const Order& order, const Ins&... message) {
  if (slots_.count(LeaseId{order.lease().id()}) > 0)
    return; // a repeated order
  auto* slot = open_slot<Holder>(order.lease());
  if (slot == nullptr)
    return;
  slot->alone = !hands_out_handles_ && is_isolated(order);
  slot->stuck_after = stuck_after(order);
  if (services_->holders != nullptr)
    services_->holders->add(name_for_people(order), slot->control);
  const auto holder = slot->holder;
  caf_version::ask(this, holder, order, message...)
      .then([this, lease = order.lease()](v1::Started& message) { started(lease, message.pid()); },
            [this, id = LeaseId{order.lease().id()}](caf::error& error) { failed(id, from_caf(error)); });
}

void Worker::started(const v1::Lease& lease, std::uint32_t pid) {
  const auto slot = slots_.find(LeaseId{lease.id()});
  if (slot == slots_.end())
    return;
  slot->second.started = true;
  v1::LeaseStarted message;
  message.set_lease(lease.id());
  message.set_epoch(lease.epoch());
  message.set_pid(pid);
  if (hands_out_handles_)
    caf_version::post(agent_, std::move(message), caf::actor_cast<caf::strong_actor_ptr>(slot->second.holder),
                      caf::actor_cast<caf::strong_actor_ptr>(this));
  else
    caf_version::post(agent_, std::move(message), caf::strong_actor_ptr{}, caf::strong_actor_ptr{});
}

void Worker::failed(LeaseId lease, Error error) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end())
    return;
  // The agent is told when the holder has ended.
  slot->second.failure = std::move(error);
  caf::anon_send_exit(slot->second.holder, caf::exit_reason::user_shutdown);
}

caf::result<v1::Started, caf::strong_actor_ptr> Worker::find(const v1::FindHolder& message) {
  const auto slot = slots_.find(LeaseId{message.lease()});
  // Of a process that is about to be killed nobody finds anything: calls that are made again wait for the next life.
  if (slot == slots_.end() || slot->second.epoch != message.epoch() || !slot->second.started || gives_up_)
    return to_caf(Error{Errc::stale_epoch, fmt::format("lease {} of epoch {} is not held here any more",
                                                       message.lease(), message.epoch())});
  return {v1::Started{}, caf::actor_cast<caf::strong_actor_ptr>(slot->second.holder)};
}

void Worker::end(const v1::EndLease& order) {
  const auto found = slots_.find(LeaseId{order.lease()});
  if (found == slots_.end() || found->second.epoch != order.epoch())
    return; // the holder ended by itself before the order came, and its end is or was reported
  auto& slot = found->second;
  slot.ending = true;
  slot.control->stop_all();
  // A holder whose lease was revoked answers its calls first, then ends by itself.
  if (!slot.revoked)
    caf::anon_send_exit(slot.holder, caf::exit_reason::user_shutdown);
  if (order.grace_ms() > 0) {
    v1::Tick tick;
    tick.set_id(order.lease());
    const auto grace = from_milliseconds(order.grace_ms());
    caf_version::post_later(this, grace, tick);
    // Before that, what only waits for others is woken: it may still end in order.
    tick.set_what(waits_end);
    caf_version::post_later(this, grace - std::min<Duration>(grace / 4, limits::last_words), std::move(tick));
  }
}

void Worker::ended(v1::LeaseEnded message) {
  const auto slot = slots_.extract(LeaseId{message.lease()});
  if (slot.empty())
    return;
  // A constructor that ends its actor, or loses its device, and fails, has failed.
  const bool unsaid = message.error() == 0 || !slot.mapped().started;
  if (const auto& failure = slot.mapped().failure; failure && unsaid)
    set_error(message, *failure);
  // This process may end with its last lease, before the next report would be due.
  if (slots_.empty())
    report_tasks();
  caf_version::post(agent_, std::move(message));
}

void Worker::report_usage() {
  reporting_ = !slots_.empty();
  if (!reporting_)
    return;
  caf_version::post_later(this, limits::usage_report, v1::Tick{});
  look_for_stuck();
  report_tasks();
  std::vector<v1::HolderUsage::Entry> entries;
  for (auto& [id, slot] : slots_) {
    const auto memory = services_->quotas->used(id);
    const auto calls = slot.control->calls();
    auto metrics = slot.control->metrics().values();
    auto methods = slot.control->methods();
    if (memory == slot.memory_bytes && calls == slot.calls && metrics == slot.metrics && methods == slot.methods)
      continue;
    slot.memory_bytes = memory;
    slot.calls = calls;
    slot.metrics = std::move(metrics);
    slot.methods = std::move(methods);
    auto& entry = entries.emplace_back();
    entry.set_lease(id.value());
    entry.set_epoch(slot.epoch);
    entry.set_memory_bytes(memory);
    entry.set_calls(calls);
    add_metrics(entry, slot.metrics);
    add_counts(*entry.mutable_methods(), slot.methods);
  }
  for (auto& report : in_messages(std::move(entries)))
    caf_version::post(agent_, std::move(report));
}

void Worker::look_for_stuck() {
  const auto now = Clock::now();
  const auto passed = std::clamp<Duration>(now - last_look_, Duration::zero(), 2 * Duration{limits::usage_report});
  last_look_ = now;
  for (auto& [id, slot] : slots_) {
    if (slot.stuck_after == Duration::zero() || slot.told_stuck || slot.ending)
      continue;
    const auto busy = slot.control->busy();
    if (!busy) {
      slot.busy_since = never;
      continue;
    }
    if (std::exchange(slot.busy_since, busy->since) == busy->since)
      slot.busy_for += passed;
    else
      slot.busy_for = std::min(now - busy->since, passed);
    if (slot.busy_for < slot.stuck_after)
      continue;
    slot.told_stuck = true;
    stuck(id, slot,
          fmt::format("{} has run for {:.1f} s without progress, and counts as stuck after {:.1f} s (stuck_after){}",
                      busy->what, to_seconds(slot.busy_for), to_seconds(slot.stuck_after),
                      hands_out_handles_ ? "; a thread cannot be ended from outside" : ": its process was ended"));
  }
}

void Worker::report_tasks() {
  auto tasks = services_->tasks->counts();
  if (tasks == tasks_)
    return;
  tasks_ = std::move(tasks);
  v1::HolderUsage report;
  report.set_worker(services_->worker);
  add_counts(*report.mutable_tasks(), tasks_);
  caf_version::post(agent_, std::move(report));
}

void Worker::revoke_on(const v1::DeviceFault& message) {
  const std::set<int> failed{message.devices().begin(), message.devices().end()};
  for (auto& [id, slot] : slots_) {
    const auto on =
        std::find_if(slot.devices.begin(), slot.devices.end(), [&](int device) { return failed.count(device) > 0; });
    if (on == slot.devices.end() || slot.revoked)
      continue;
    slot.revoked = true;
    Error error{Errc::lease_revoked, describe_fault(message.node(), *on, message.reason())};
    slot.control->revoke(error);
    slot.failure = std::move(error);
    caf_version::enqueue(caf::actor_cast<caf::strong_actor_ptr>(slot.holder), nullptr, 0, message);
  }
}

void Worker::give_up(const v1::EndProcess& message) {
  gives_up_ = true;
  if (message.text().empty() && leave_)
    return leave_();
  const Error error{Errc::worker_died, message.text()};
  for (auto& [id, slot] : slots_) {
    slot.revoked = true;
    slot.control->give_up(error);
    // Calls that wait for their turn are answered, too, if the holder's thread is free.
    caf_version::enqueue(caf::actor_cast<caf::strong_actor_ptr>(slot.holder), nullptr, 0, v1::DeviceFault{});
  }
}

Worker::Slot* Worker::slot_for_sender(LeaseId lease) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end())
    return nullptr;
  // Ids of leases are in the state that everybody sees, and what is cancelled before it comes is remembered.
  const auto& owner = slot->second.tasks_of;
  return !owner || is_from_server() || caller().name == *owner ? &slot->second : nullptr;
}

void Worker::cancel(const v1::CancelCall& message) {
  const LeaseId lease{message.lease()};
  auto* slot = slot_for_sender(lease);
  if (slot == nullptr)
    return;
  const CallId call{message.call()};
  const auto by = is_from_server() ? std::string{} : caller().name;
  if (message.take_back()) {
    // Only a call that has not begun can be taken back; otherwise the client gets no answer to this request.
    if (slot->control->take_back(call, by))
      caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(current_sender()), message);
    return;
  }
  const bool running = slot->control->cancel(call, by);
  if (running && message.force() && slot->alone)
    stuck(lease, *slot, "its process was ended, because a call that it ran was cancelled by force");
}

void Worker::end_waits(LeaseId lease) {
  if (const auto slot = slots_.find(lease); slot != slots_.end() && slot->second.ending)
    slot->second.control->end_waits();
}

void Worker::grace_over(LeaseId lease) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end() || !slot->second.ending)
    return;
  stuck(lease, slot->second,
        hands_out_handles_ ? "what runs under this lease is stuck in user code and did not stop within its grace; a "
                             "thread cannot be ended from outside, its devices are free when it returns"
                           : "it was stuck in user code and did not stop within its grace: its process was ended");
}

void Worker::stuck(LeaseId lease, const Slot& slot, std::string text) {
  v1::LeaseStuck message;
  message.set_lease(lease.value());
  message.set_epoch(slot.epoch);
  message.set_text(std::move(text));
  caf_version::post(agent_, std::move(message));
}

} // namespace gpuactors
