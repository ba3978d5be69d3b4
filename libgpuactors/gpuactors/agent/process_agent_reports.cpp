// ProcessAgent: reports to the broker about the node, its leases, and the state that actors save.
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/base/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

namespace {

std::int64_t milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

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

void ProcessAgent::link_changed(const caf::strong_actor_ptr& broker) {
  if (broker == nullptr && broker_ != nullptr)
    options_.notice("the connection to the broker is lost: what runs here goes on");
  broker_ = broker;
  accepted_ = false;
  if (broker == nullptr)
    return;
  for (auto& save : unsent_saves_)
    caf_version::post(broker, std::move(save));
  unsent_saves_.clear();
  register_node();
}

void ProcessAgent::register_node() {
  if (broker_ == nullptr)
    return;
  v1::RegisterNode message;
  *message.mutable_node() = options_.node;
  message.mutable_node()->set_address(options_.address());
  message.set_agent(id_);
  *message.mutable_types() = options_.types;
  message.set_heartbeat_ms(milliseconds(options_.heartbeat));
  message.set_link_timeout_ms(milliseconds(options_.link_timeout));
  message.set_registration(++registration_);
  message.set_release(release);
  message.set_held_ahead(tell_held());
  for (const auto& own : own_ends_)
    *message.add_own_ends() = own;
  const auto broker = caf::actor_cast<BrokerHandle>(broker_);
  caf_version::ask(this, broker, std::move(message), caf::actor_cast<caf::strong_actor_ptr>(this))
      .then(
          [this](v1::Done&) {
            options_.notice(fmt::format("node {} is registered with the broker", options_.node.name()));
            options_.registered();
            accepted_ = true;
            said_.clear();
            left_ = false;
            tell_that_it_leaves();
          },
          [this, failed = registration_](caf::error& error) {
            // A newer connection has registered, or will: another registration now would interfere with that one.
            if (failed != registration_ || error == caf::sec::request_receiver_down)
              return;
            refused_ = failed;
            const auto why = from_caf(error);
            const auto remedy = why.code() == Errc::already_exists ? ": this one needs another --name" : "";
            auto said = fmt::format("the broker does not take the node: {}{}; it asks again every {} s", why.message(),
                                    remedy, std::chrono::seconds{limits::redial_longest}.count());
            if (said != said_)
              options_.notice(said_ = std::move(said));
            remind(limits::redial_longest, Due::registration);
          });
  // Workers report only changes, so the latest values are sent here.
  std::vector<v1::HolderUsage::Entry> usage;
  for (const auto& [id, lease] : leases_)
    if (lease.usage)
      usage.push_back(*lease.usage);
  for (auto& report : in_messages(std::move(usage)))
    caf_version::post(broker_, std::move(report));
  if (!tasks_.empty())
    report_tasks();
}

void ProcessAgent::leave(const v1::DrainNode& message) {
  leaves_by_ = deadline_after(Clock::now(), from_milliseconds(message.deadline_ms()));
  if (!accepted_ && leases_.empty())
    return options_.emptied();
  tell_that_it_leaves();
}

void ProcessAgent::tell_that_it_leaves() {
  // Refused, this node would empty the one that has the name.
  if (!leaves_by_ || !accepted_)
    return;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*leaves_by_ - Clock::now()).count();
  v1::DrainNode message;
  message.set_name(options_.node.name());
  message.set_deadline_ms(static_cast<std::uint64_t>(std::max<std::int64_t>(0, left)));
  // Orders that the broker sent before it knew have arrived when its answer does.
  caf_version::ask(this, caf::actor_cast<BrokerHandle>(broker_), std::move(message))
      .then(
          [this](v1::Done&) {
            left_ = true;
            if (leases_.empty())
              options_.emptied();
          },
          [this](caf::error& error) {
            options_.notice(fmt::format("the broker does not empty the node: {}", from_caf(error).message()));
          });
}

void ProcessAgent::say_goodbye() {
  // A broker that has not accepted the node yet may be about to.
  if (broker_ == nullptr)
    return options_.parted();
  v1::Goodbye message;
  message.set_node(options_.node.name());
  message.set_agent(id_);
  caf_version::ask(this, caf::actor_cast<BrokerHandle>(broker_), std::move(message))
      .then([this](v1::Done&) { options_.parted(); }, [this](caf::error&) { options_.parted(); });
}

std::uint32_t ProcessAgent::tell_held() {
  v1::HeldAhead part;
  part.set_node(options_.node.name());
  part.set_agent(id_);
  part.set_registration(registration_);
  std::size_t bytes = 0;
  for (const auto& [id, lease] : leases_) {
    *part.add_held() = lease.held;
    bytes += lease.held.ByteSizeLong();
    if (bytes < limits::held_bytes)
      continue;
    caf_version::post(broker_, part);
    part.clear_held();
    bytes = 0;
  }
  if (part.held_size() > 0)
    caf_version::post(broker_, std::move(part));
  // The held leases include the saved state.
  fresh_saves_.clear();
  return static_cast<std::uint32_t>(leases_.size());
}

// -- what runs on the node ------------------------------------------------------------------------

void ProcessAgent::saved(const v1::ActorSaved& message) {
  const LeaseId id{message.lease()};
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || lease->second.held.lease().epoch() != message.epoch() || !lease->second.held.has_actor()
      || message.data().size() > limits::saved_bytes || message.type().size() > limits::message_name_bytes)
    return;
  // The agent keeps the state as well, for a broker that restarts or is out of reach.
  lease->second.held.mutable_actor()->set_saved_type(message.type());
  lease->second.held.mutable_actor()->set_saved(message.data());
  fresh_saves_.insert(id);
  if (!saves_wait_)
    send_saves();
}

void ProcessAgent::send_saves() {
  if (broker_ == nullptr || fresh_saves_.empty())
    return;
  for (const auto id : std::exchange(fresh_saves_, {}))
    caf_version::post(broker_, save_of(leases_.at(id).held));
  if (std::exchange(saves_wait_, true))
    return;
  remind(limits::save_interval, Due::saves);
}

void ProcessAgent::used(const v1::HolderUsage& message) {
  if (message.tasks_size() > 0)
    return tasks_done(message);
  for (const auto& entry : message.entries())
    if (const auto lease = leases_.find(LeaseId{entry.lease()}); lease != leases_.end())
      lease->second.usage = entry;
  // Saves go first: once the broker counts a call, it has the state saved in that call.
  send_saves();
  caf_version::post(broker_, message);
}

void ProcessAgent::tasks_done(const v1::HolderUsage& message) {
  // After its end nobody would know what it has already counted.
  if (workers_.count(message.worker()) == 0)
    return;
  tasks_.take(message.worker(), message.tasks());
  report_tasks();
}

void ProcessAgent::report_tasks() {
  auto report = tasks_.report();
  report.set_node(options_.node.name());
  report.set_agent(id_);
  caf_version::post(broker_, std::move(report));
}

void ProcessAgent::keep_own_end(std::uint64_t actor, const v1::LeaseEnded& message) {
  // A broker that does not answer may hear of it, and die before its store does: no answer says that it is known.
  auto& own = own_ends_.emplace_back();
  own.set_actor(actor);
  *own.mutable_end() = message;
  // A constructor's failure may say more; Error replaces a character that is cut.
  if (message.text().size() > limits::end_reason_bytes)
    own.mutable_end()->set_text(Error{Errc::actor_died, message.text().substr(0, limits::end_reason_bytes)}.message());
  if (own_ends_.size() > limits::own_ends)
    own_ends_.pop_front();
}

void ProcessAgent::report(v1::LeaseEnded message) {
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
    // Keeps the save until the broker can be reached again. The broker learns of the end when the lease is missing from
    // the next registration.
    if (broker_ == nullptr && !held.actor().saved_type().empty())
      unsent_saves_.push_back(save_of(held));
    else if (fresh)
      caf_version::post(broker_, save_of(held));
    if (const auto worker = workers_.find(lease.mapped().worker); worker != workers_.end()) {
      worker->second.leases.erase(id);
      options_.sources->remove_holder(worker->first, id);
    }
  }
  caf_version::post(broker_, std::move(message));
  // Without a broker, no new orders can arrive.
  if (leases_.empty() && (left_ || (leaves_by_ && !accepted_)))
    options_.emptied();
}

} // namespace gpuactors
