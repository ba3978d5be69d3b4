#include <gpuactors/actor/actor_shell.hpp>
#include <gpuactors/actor/task_runner.hpp>
#include <gpuactors/agent/worker.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

LeaseInfo from_wire(const v1::Lease& lease, const std::vector<std::shared_ptr<Device>>& devices) {
  LeaseInfo result;
  result.id = LeaseId{lease.id()};
  result.epoch = lease.epoch();
  result.node = lease.node();
  for (const auto& device : lease.devices())
    result.devices.push_back({device.index(), Share{device.share_units()}, device.memory_bytes()});
  result.cpus = Share{lease.cpu_units()};
  for (const auto& [name, units] : lease.resource_units())
    result.resources.emplace(name, Share{units});
  result.parent = LeaseId{lease.parent()};
  for (const auto& [name, units] : lease.units())
    result.accelerators[name].assign(units.ids().begin(), units.ids().end());
  result.environment = environment_of(result, devices);
  return result;
}

} // namespace

Worker::Worker(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, caf::strong_actor_ptr agent)
  : AgentHandle::base(config), services_(std::move(services)), agent_(std::move(agent)) {
  // nop
}

AgentHandle::behavior_type Worker::make_behavior() {
  return {
      [this](const v1::StartRunner& order) { return start_runner(order); },
      [this](const v1::StartActor& order, const Payload& config) { return start_actor(order, config); },
      [this](const v1::EndLease& order) { return end(order); },
      [this](const v1::LeaseEnded& message) { ended(message); },
      [this](const v1::CancelCall& message) {
        if (const auto slot = slots_.find(LeaseId{message.lease()}); slot != slots_.end())
          slot->second.control->cancel(CallId{message.call()});
      },
      [this](const v1::StreamCredit& message) {
        if (const auto slot = slots_.find(LeaseId{message.lease()}); slot != slots_.end())
          slot->second.control->credit(CallId{message.call()}, message.items());
      },
      [this](const v1::Tick& message) { grace_over(LeaseId{message.id()}); },
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
Worker::Slot& Worker::open_slot(const v1::Lease& lease) {
  auto& slot = slots_[LeaseId{lease.id()}];
  slot.epoch = lease.epoch();
  slot.control = std::make_shared<HolderControl>();
  slot.holder = caf::actor_cast<caf::actor>(
      system().spawn<Holder, caf::detached>(services_, slot.control, from_wire(lease, services_->devices)));
  v1::LeaseEnded ended;
  ended.set_lease(lease.id());
  ended.set_epoch(lease.epoch());
  slot.control->on_end(
      [worker = caf::actor_cast<caf::strong_actor_ptr>(this), control = std::weak_ptr{slot.control}, ended]() mutable {
        if (const auto known = control.lock())
          for (const auto index : known->lost_devices())
            ended.add_lost_devices(index);
        if (ended.lost_devices_size() > 0)
          ended.set_error(static_cast<std::uint32_t>(Errc::context_lost));
        caf_version::enqueue(worker, nullptr, 0, ended);
      });
  // Attached before anybody else has the handle, so it runs after all that others attach: whoever learns that the lease
  // is free finds its handles marked as down.
  slot.holder->attach_functor([control = slot.control] { control->half_ended(); });
  return slot;
}

caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>
Worker::start_runner(const v1::StartRunner& order) {
  auto promise = make_response_promise<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  const auto holder = open_slot<TaskRunner>(order.lease()).holder;
  caf_version::ask(this, holder, order)
      .then(
          [this, promise, holder](v1::Started& started) mutable {
            promise.deliver(std::move(started), caf::actor_cast<caf::strong_actor_ptr>(holder),
                            caf::actor_cast<caf::strong_actor_ptr>(this));
          },
          [promise, holder](caf::error& error) mutable {
            caf::anon_send_exit(holder, caf::exit_reason::user_shutdown);
            promise.deliver(std::move(error));
          });
  return promise;
}

caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr> Worker::start_actor(const v1::StartActor& order,
                                                                                           const Payload& config) {
  auto promise = make_response_promise<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>();
  const auto holder = open_slot<ActorShell>(order.lease()).holder;
  caf_version::ask(this, holder, order, config)
      .then(
          [this, promise, holder](v1::Started& started) mutable {
            promise.deliver(std::move(started), caf::actor_cast<caf::strong_actor_ptr>(holder),
                            caf::actor_cast<caf::strong_actor_ptr>(this));
          },
          [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

caf::result<v1::LeaseEnded> Worker::end(const v1::EndLease& order) {
  auto promise = make_response_promise<v1::LeaseEnded>();
  const auto found = slots_.find(LeaseId{order.lease()});
  if (found == slots_.end() || found->second.epoch != order.epoch()) {
    // It ended by itself before the order came: its report is on the way or was given.
    v1::LeaseEnded ended;
    ended.set_lease(order.lease());
    ended.set_epoch(order.epoch());
    promise.deliver(std::move(ended));
    return promise;
  }
  auto& slot = found->second;
  slot.waiting.push_back(promise);
  slot.control->stop_all();
  caf::anon_send_exit(slot.holder, caf::exit_reason::user_shutdown);
  if (order.grace_ms() > 0) {
    v1::Tick tick;
    tick.set_id(order.lease());
    caf_version::post_later(this, std::chrono::milliseconds{order.grace_ms()}, std::move(tick));
  }
  return promise;
}

void Worker::ended(const v1::LeaseEnded& message) {
  auto slot = slots_.extract(LeaseId{message.lease()});
  if (slot.empty())
    return;
  for (auto& promise : slot.mapped().waiting)
    promise.deliver(message);
  if (slot.mapped().waiting.empty())
    caf_version::post(agent_, message);
}

void Worker::grace_over(LeaseId lease) {
  const auto slot = slots_.find(lease);
  if (slot == slots_.end())
    return;
  const Error error{Errc::deadline_exceeded,
                    "what runs under this lease is stuck in user code and did not stop within its grace; a thread "
                    "cannot be ended from outside, its devices are free when it returns"};
  for (auto& promise : slot->second.waiting)
    promise.deliver(to_caf(error));
  slot->second.waiting.clear();
}

} // namespace gpuactors
