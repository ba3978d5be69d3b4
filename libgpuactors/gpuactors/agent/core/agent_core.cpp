#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/agent/core/environment.hpp>
#include <gpuactors/wire/lease_end.hpp>
#include <gpuactors/wire/resource_units.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

AgentCore::AgentCore(AgentWorld& world, AgentOptions options)
  : world_(world), options_(std::move(options)), memory_{rules_of(options_)},
    instances_(from_wire(options_.node.resource_units())) {
  // nop
}

void AgentCore::wake(AgentWake what, std::uint64_t about) {
  const auto found = workers_.find(about);
  switch (what) {
  case AgentWake::registration:
    if (refused_ == registration_)
      register_node();
    break;
  case AgentWake::worker_start:
    if (found != workers_.end() && found->second.control == nullptr && !found->second.ending) {
      found->second.late = true;
      kill_worker(found->second);
    }
    break;
  case AgentWake::worker_end:
    if (found != workers_.end())
      kill_worker(found->second);
    break;
  case AgentWake::worker_failed:
    if (found != workers_.end())
      bury(about, fmt::format("could not be started: {}", found->second.failure->message()));
    break;
  case AgentWake::worker_exit:
    if (found != workers_.end())
      bury(about, *found->second.exit);
    break;
  case AgentWake::lease_end:
    if (const auto lease = leases_.find(LeaseId{about}); lease != leases_.end())
      end_by_force(lease->second, "its worker did not say that it has stopped: its process was ended");
    break;
  case AgentWake::saves:
    saves_wait_ = false;
    send_saves();
    break;
  case AgentWake::memory:
    look_at_memory();
    break;
  }
}

std::vector<LeaseId> AgentCore::held() const {
  std::vector<LeaseId> result;
  for (const auto& [id, lease] : leases_)
    result.push_back(id);
  return result;
}

// -- leases begin ---------------------------------------------------------------------------------

void AgentCore::start(const v1::StartRunner& order) {
  v1::HeldLease held;
  held.set_client(order.client());
  held.set_client_request(order.client_request());
  start(order, std::move(held), {TypeWanted::Kind::task, order.task()}, {order.isolated(), order.environment()});
}

void AgentCore::start(const v1::StartActor& order, const Payload& config) {
  v1::HeldLease held;
  held.set_client(order.client());
  held.set_client_request(order.client_request());
  *held.mutable_actor() = order;
  held.mutable_actor()->clear_lease();
  if (const auto bytes = config.encoded()) {
    held.set_config_type(std::string{bytes->type_name()});
    held.set_config(std::string{bytes->bytes()});
  }
  const bool isolated = order.spec().isolated() || order.request().isolated();
  start(order, std::move(held), {TypeWanted::Kind::actor, order.spec().type()},
        {isolated, order.request().environment()}, config);
}

template <class Message, class... Ins>
void AgentCore::start(Message order, v1::HeldLease held, const TypeWanted& type, Isolated isolated,
                      const Ins&... message) {
  const LeaseId id{order.lease().id()};
  if (leases_.count(id) > 0)
    return; // a repeated order
  // In the lender's process, where the lender's program does not have the type, nobody could run it.
  if (const auto* lender = lender_of(order.lease()); lender != nullptr && !lender->program->has(type))
    isolated.wanted = true;
  if (auto no = refused(order.lease(), type, isolated))
    return report(std::move(*no));
  if (auto too_few = take_units(instances_, *order.mutable_lease()))
    return report(std::move(*too_few));
  *held.mutable_lease() = order.lease();
  const auto since = world_.unix_ns();
  auto& worker = worker_for(held, type, isolated);
  world_.holder_begins(worker.number, held, since);
  auto& record = leases_[id];
  record.held = std::move(held);
  record.worker = worker.number;
  worker.leases.insert(id);
  Order send = [this, order = std::move(order), message...](const ContactPtr& to) {
    world_.order(to, order, message...);
  };
  if (worker.control != nullptr)
    send(worker.control);
  else
    worker.orders.push_back([this, id, send = std::move(send)](const ContactPtr& to) {
      if (leases_.count(id) > 0)
        send(to);
    });
}

std::optional<v1::LeaseEnded> AgentCore::refused(const v1::Lease& lease, const TypeWanted& type,
                                                 const Isolated& isolated) const {
  if (auto failed = refuse_failed(lease))
    return failed;
  // The order was already on its way when the broker learned that the programs have changed. Another node may have the
  // type, so that whoever asks may ask again.
  if (const auto* lender = isolated.wanted ? nullptr : lender_of(lease);
      lender == nullptr && options_.programs.find(type) == nullptr)
    return lease_end(lease.id(), lease.epoch(),
                     Error{Errc::lease_revoked, fmt::format("no program of node {} has the type {} any more",
                                                            options_.node.name(), type.name)});
  if (auto checked = check_environment(isolated.environment); !checked)
    return lease_end(lease.id(), lease.epoch(), checked.error());
  // In a process of its own, the lender's memory would not be counted with what is borrowed.
  const auto has_ended = [this](LeaseId id) {
    const auto found = leases_.find(id);
    return found != leases_.end() && found->second.ended;
  };
  const auto* lender = lender_of(lease);
  // A process ends with its owner, when those that have borrowed by then have ended.
  if (lender != nullptr && !isolated.wanted
      && (lender->ending || has_ended(lender->owner) || has_ended(LeaseId{lease.parent()})))
    return lease_end(lease.id(), lease.epoch(),
                     Error{Errc::lease_revoked, "the lease that it was to borrow from is ending"});
  return std::nullopt;
}

void AgentCore::started(v1::LeaseStarted message) {
  auto* lease = find(message);
  if (lease == nullptr)
    return;
  message.set_address(workers_.at(lease->worker).address);
  *lease->held.mutable_started() = message;
  tell_broker(std::move(message));
}

// -- leases end -----------------------------------------------------------------------------------

void AgentCore::end(const v1::EndLease& order) {
  const auto known = leases_.find(LeaseId{order.lease()});
  if (known == leases_.end()) {
    // Nothing runs under the lease: it ended before the order arrived, or the order to start it was lost.
    return report(lease_end(order.lease(), order.epoch()));
  }
  auto* lease = find(order);
  if (lease == nullptr)
    return;
  lease->asked = true;
  auto& worker = workers_.at(lease->worker);
  if (worker.control == nullptr)
    return ended(lease_end(order.lease(), order.epoch()));
  world_.order(worker.control, order);
  // The worker watches over the grace, unless user code keeps it from that. Those that borrow from this lease get a
  // grace, too, and end first.
  constexpr Duration slack = 2 * Duration{limits::stop_grace};
  const auto grace = from_milliseconds(order.grace_ms());
  if (grace > Duration::zero() && grace < Duration::max() - slack)
    world_.wake(grace + slack, AgentWake::lease_end, order.lease());
}

void AgentCore::ended(v1::LeaseEnded message) {
  auto* lease = find(message);
  if (lease == nullptr)
    return;
  const LeaseId id{message.lease()};
  auto& worker = workers_.at(lease->worker);
  // Why it ends is known, unless it had ended itself for good; and it is free when its process is gone.
  if (worker.beyond_memory) {
    if (message.by_itself())
      lease->ended = std::move(message);
    return;
  }
  const bool lost = message.lost_devices_size() > 0;
  // All holders in the process report the same loss: only the first report counts.
  if (lost && !std::exchange(worker.told_loss, true))
    for (const auto index : message.lost_devices())
      note_loss(index);
  message.clear_lost_devices();
  if (!lost && id != worker.owner) {
    report(std::move(message));
    // The parent lease may have waited for this one to end.
    const auto owner = leases_.find(worker.owner);
    if (owner != leases_.end() && owner->second.ended && worker.leases.size() == 1)
      dismiss(worker);
    return;
  }
  // The lease is free when the process is gone. Leases that borrow from it end with it, but get a grace to stop.
  lease->ended = std::move(message);
  if (lost)
    return kill_worker(worker);
  if (worker.leases.size() == 1)
    return dismiss(worker);
  for (const auto other : worker.leases) {
    if (other == worker.owner)
      continue;
    auto& borrower = leases_.at(other);
    borrower.asked = borrower.asked || !borrower.held.actor().spec().detached();
    v1::EndLease order;
    order.set_lease(other.value());
    order.set_epoch(borrower.held.lease().epoch());
    order.set_grace_ms(to_milliseconds(limits::stop_grace));
    world_.order(worker.control, order);
    world_.wake(2 * Duration{limits::stop_grace}, AgentWake::lease_end, other.value());
  }
}

void AgentCore::stuck(const v1::LeaseStuck& message) {
  auto* lease = find(message);
  if (lease == nullptr)
    return;
  end_by_force(*lease, message.text());
}

void AgentCore::end_by_force(LeaseRecord& lease, const std::string& why) {
  auto& worker = workers_.at(lease.worker);
  if (worker.ending)
    return;
  // A stuck thread cannot be ended from outside, but its process can.
  const auto& held = lease.held.lease();
  world_.notice(fmt::format("{}: {}", held.name(), why));
  if (!lease.ended)
    lease.ended = lease_end(held.id(), held.epoch(), Error{Errc::worker_died, why});
  kill_worker(worker);
}

} // namespace gpuactors
