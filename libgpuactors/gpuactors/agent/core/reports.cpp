// AgentCore: reports to the broker about the node, its leases, and the state that actors save.
#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/base/version.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

namespace {

v1::ActorSaved save_of(const v1::HeldLease& held) {
  v1::ActorSaved save;
  save.set_lease(held.lease().id());
  save.set_epoch(held.lease().epoch());
  save.set_type(held.actor().saved_type());
  save.set_data(held.actor().saved());
  save.set_actor(held.actor().actor());
  return save;
}

} // namespace

// -- the node -------------------------------------------------------------------------------------

void AgentCore::broker_changed(const ContactPtr& broker) {
  if (broker == nullptr && accepted_)
    world_.notice("the connection to the broker is lost: what runs here goes on");
  broker_ = broker;
  if (std::exchange(accepted_, false))
    world_.unregistered();
  if (broker == nullptr)
    return;
  // Before the registration, after which the broker may start their actors. They are kept until it has accepted that:
  // it may be one that only stands by.
  for (const auto& save : unsent_saves_)
    tell_broker(save);
  register_node();
}

void AgentCore::register_node() {
  if (broker_ == nullptr)
    return;
  v1::RegisterNode message;
  *message.mutable_node() = options_.node;
  message.mutable_node()->set_address(world_.address());
  message.set_agent(options_.id);
  if (options_.programs.types())
    *message.mutable_types() = *options_.programs.types();
  message.set_programs(generation_);
  message.set_heartbeat_ms(to_milliseconds(options_.heartbeat));
  message.set_link_timeout_ms(to_milliseconds(options_.link_timeout));
  message.set_registration(++registration_);
  message.set_release(release);
  if (certificate_)
    *message.mutable_certificate() = *certificate_;
  told_certificate_ = certificate_;
  message.set_held_ahead(tell_held());
  for (const auto& own : own_ends_)
    *message.add_own_ends() = own;
  world_.ask(broker_, std::move(message),
             [this, number = registration_](const auto& answer) { registration_answered(number, answer); });
  for (const auto& away : ended_away_)
    tell_broker(away.end);
  // Workers report only changes, so the latest values are sent here.
  std::vector<v1::HolderUsage::Entry> usage;
  for (const auto& [id, lease] : leases_)
    if (lease.usage)
      usage.push_back(*lease.usage);
  for (auto& report : in_messages(std::move(usage)))
    tell_broker(std::move(report));
  if (!tasks_.empty())
    report_tasks();
}

void AgentCore::registration_answered(std::uint64_t registration, const std::optional<Result<void>>& answer) {
  // A newer connection has registered, or will: what became of this one does not matter any more.
  if (registration != registration_ || broker_ == nullptr || !answer)
    return;
  if (*answer) {
    world_.notice(fmt::format("node {} is registered with the broker", options_.node.name()));
    world_.registered();
    accepted_ = true;
    // A broker that was starting has not taken what came meanwhile.
    if (certificate_ && (!told_certificate_ || told_certificate_->until_unix_s() != certificate_->until_unix_s()))
      report_certificate();
    unsent_saves_.clear();
    ended_away_.clear();
    said_.clear();
    left_ = false;
    return tell_that_it_leaves();
  }
  const auto& why = answer->error();
  // This one stands by for another broker.
  if (why.code() == Errc::stale_epoch)
    return world_.look_elsewhere(why);
  refused_ = registration;
  if (why.code() == Errc::already_exists)
    end_all();
  const auto* remedy = why.code() == Errc::already_exists ? ": this one needs another --name" : "";
  auto said = fmt::format("the broker does not take the node: {}{}; it asks again every {} s", why.message(), remedy,
                          std::chrono::seconds{limits::redial_longest}.count());
  if (said != said_)
    world_.notice(said_ = std::move(said));
  world_.wake(limits::redial_longest, AgentWake::registration, 0);
}

void AgentCore::end_all() {
  // By its id, the broker would have known this agent: it has forgotten what runs here, or has started it elsewhere.
  ended_away_.clear();
  if (leases_.empty())
    return;
  world_.notice(fmt::format("the broker has given up {} leases here, since another node has the name {}: they end",
                            leases_.size(), options_.node.name()));
  for (const auto id : held()) {
    v1::EndLease order;
    order.set_lease(id.value());
    order.set_epoch(leases_.at(id).held.lease().epoch());
    order.set_grace_ms(to_milliseconds(limits::stop_grace));
    end(order);
  }
}

void AgentCore::leave(const v1::DrainNode& message) {
  leaves_by_ = deadline_after(world_.now(), from_milliseconds(message.deadline_ms()));
  if (!accepted_ && leases_.empty())
    return world_.emptied();
  tell_that_it_leaves();
}

void AgentCore::tell_that_it_leaves() {
  // Refused, this node would empty the one that has the name.
  if (!leaves_by_ || !accepted_)
    return;
  v1::DrainNode message;
  message.set_name(options_.node.name());
  message.set_deadline_ms(to_milliseconds(*leaves_by_ - world_.now()));
  // Orders that the broker sent before it knew have arrived when its answer does.
  world_.ask(broker_, std::move(message), [this](const std::optional<Result<void>>& answer) {
    if (!answer)
      return; // it will be told again once the node is registered
    if (!*answer)
      return world_.notice(fmt::format("the broker does not empty the node: {}", answer->error().message()));
    left_ = true;
    if (leases_.empty())
      world_.emptied();
  });
}

void AgentCore::say_goodbye() {
  // A broker that has not accepted the node yet may be about to.
  if (broker_ == nullptr)
    return world_.parted();
  v1::Goodbye message;
  message.set_node(options_.node.name());
  message.set_agent(options_.id);
  world_.ask(broker_, std::move(message), [this](const std::optional<Result<void>>&) { world_.parted(); });
}

std::uint32_t AgentCore::tell_held() {
  v1::HeldAhead part;
  part.set_node(options_.node.name());
  part.set_agent(options_.id);
  part.set_registration(registration_);
  std::size_t bytes = 0;
  const auto tell = [&](const v1::HeldLease& lease, bool retired) {
    auto& held = *part.add_held();
    held = lease;
    held.set_retired(retired);
    bytes += lease.ByteSizeLong();
    if (bytes < limits::held_bytes)
      return;
    tell_broker(part);
    part.clear_held();
    bytes = 0;
  };
  for (const auto& [id, lease] : leases_) {
    const auto worker = workers_.find(lease.worker);
    tell(lease.held, worker != workers_.end() && worker->second.retired);
  }
  for (const auto& away : ended_away_)
    tell(away.held, false);
  if (part.held_size() > 0)
    tell_broker(std::move(part));
  // The held leases include the saved state.
  fresh_saves_.clear();
  return static_cast<std::uint32_t>(leases_.size() + ended_away_.size());
}

// -- what runs on the node ------------------------------------------------------------------------

void AgentCore::saved(const v1::ActorSaved& message) {
  auto* lease = find(message);
  if (lease == nullptr || !lease->held.has_actor() || message.data().size() > limits::saved_bytes
      || message.type().size() > limits::message_name_bytes)
    return;
  // The agent keeps the state as well, for a broker that restarts or is out of reach.
  lease->held.mutable_actor()->set_saved_type(message.type());
  lease->held.mutable_actor()->set_saved(message.data());
  fresh_saves_.insert(LeaseId{message.lease()});
  if (!saves_wait_)
    send_saves();
}

void AgentCore::send_saves() {
  if (broker_ == nullptr || fresh_saves_.empty())
    return;
  for (const auto id : std::exchange(fresh_saves_, {}))
    tell_broker(save_of(leases_.at(id).held));
  if (std::exchange(saves_wait_, true))
    return;
  world_.wake(limits::save_interval, AgentWake::saves, 0);
}

void AgentCore::used(const v1::HolderUsage& message) {
  if (message.has_certificate()) {
    certificate_ = message.certificate();
    return report_certificate();
  }
  if (message.tasks_size() > 0) {
    // After its end nobody would know what it has already counted.
    if (workers_.count(message.worker()) == 0)
      return;
    tasks_.take(message.worker(), message.tasks());
    return report_tasks();
  }
  for (const auto& entry : message.entries())
    if (auto* lease = find(entry))
      lease->usage = entry;
  // Saves go first: once the broker counts a call, it has the state saved in that call.
  send_saves();
  tell_broker(message);
}

void AgentCore::report_certificate() {
  v1::HolderUsage report;
  report.set_node(options_.node.name());
  report.set_agent(options_.id);
  *report.mutable_certificate() = *certificate_;
  tell_broker(std::move(report));
}

void AgentCore::report_tasks() {
  auto report = tasks_.report();
  report.set_node(options_.node.name());
  report.set_agent(options_.id);
  tell_broker(std::move(report));
}

void AgentCore::keep_own_end(std::uint64_t actor, const v1::LeaseEnded& message) {
  // A broker that does not answer may hear of it, and die before its store does: no answer says that it is known.
  auto& own = own_ends_.emplace_back();
  own.set_actor(actor);
  *own.mutable_end() = message;
  // A constructor's failure may say more.
  own.mutable_end()->set_text(std::string{head_of(message.text(), limits::end_reason_bytes)});
  if (own_ends_.size() > limits::own_ends)
    own_ends_.pop_front();
}

void AgentCore::report(v1::LeaseEnded message) {
  const LeaseId id{message.lease()};
  // Gives the units back before the broker hears of the end and grants them to others.
  instances_.give_back(id);
  if (const auto lease = leases_.extract(id); !lease.empty()) {
    const auto& held = lease.mapped().held;
    const bool fresh = fresh_saves_.erase(id) > 0;
    if (message.by_itself()) {
      message.set_actor(held.actor().actor());
      keep_own_end(held.actor().actor(), message);
    }
    // Keeps the save, and the end, until a broker has the node. Of an end that was asked for, the broker learns when
    // the lease is missing from the next registration.
    const bool has_saved = !held.actor().saved_type().empty();
    if (!accepted_ && has_saved)
      unsent_saves_.push_back(save_of(held));
    if (fresh || (!accepted_ && has_saved))
      tell_broker(save_of(held));
    if (!accepted_ && !lease.mapped().asked && !message.by_itself())
      ended_away_.push_back({held, message});
    if (const auto worker = workers_.find(lease.mapped().worker); worker != workers_.end()) {
      worker->second.leases.erase(id);
      world_.holder_ended(worker->first, id.value());
      if (worker->second.retired && worker->second.leases.empty())
        dismiss(worker->second);
    }
  }
  tell_broker(std::move(message));
  // Without a broker, no new orders can arrive.
  if (leases_.empty() && (left_ || (leaves_by_ && !accepted_)))
    world_.emptied();
}

} // namespace gpuactors
