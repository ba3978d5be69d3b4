// The desired state that the broker keeps over restarts. The actual state is reported by its nodes.
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/core/convert.hpp>

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace gpuactors {

// -- from the file --------------------------------------------------------------------------------

void BrokerCore::load() {
  keeper_.reserve_ids(options_.last_id);
  keeper_.each<v1::HeldLease>(
      StateSection::actors, [this](const StateKey&, const v1::HeldLease& stored) { load_actor(stored).stored = true; });
  keeper_.each<v1::StoredGroup>(StateSection::groups, [this](const StateKey&, const v1::StoredGroup& stored) {
    const GroupId id{stored.id()};
    stored_groups_[id] = stored;
    auto& group = groups_[id];
    group.name = stored.request().name();
    group.request = stored.request();
    if (stored.bundles_size() > 0)
      group.was_placed();
    // Of those who administer the quota's owner is none, or another one.
    if (const auto& owner = stored.request().owner(); !owner.empty() && owner == stored.request().quota_owner())
      group.place = rooms_.hold(owner, stored.ByteSizeLong());
    submitted_groups_[{stored.request().client(), stored.request().client_request()}] = id;
    offspring_.add(spawner_of(stored.request().spawner()), id);
  });
  forgotten_ = keeper_.load_buried();
  keeper_.each<v1::StoredQuota>(StateSection::quotas, [this](const StateKey& key, const v1::StoredQuota& stored) {
    if (const auto* owner = std::get_if<std::string>(&key))
      if (auto set = ledger_.set_quota(*owner, Share{stored.gpu_units()}, world_.now()); !set)
        log_.add(EventKind::error, "store", set.error().message());
  });
  keeper_.each<v1::StoredNode>(StateSection::nodes, [this](const StateKey& key, const v1::StoredNode& stored) {
    if (const auto* name = std::get_if<std::string>(&key))
      stored_nodes_[*name] = stored;
  });
}

ActorRecord& BrokerCore::load_actor(const v1::HeldLease& stored) {
  const auto& order = stored.actor();
  ActorRecord record;
  record.id = ActorId{order.actor()};
  record.spec = order.spec();
  record.config = Payload::from_bytes(stored.config_type(), stored.config());
  record.request = order.request();
  record.client = order.client();
  record.client_request = order.client_request();
  // A stored actor counts as having lived: nobody waits for its first start any more.
  record.lives = Lives{order.restarts(), order.forgiven(), order.moves(), true};
  record.saved_type = order.saved_type();
  record.saved = order.saved();
  record.stored_lease = LeaseId{stored.lease().id()};
  const bool begins_once = record.spec.max_restarts() == 0 && record.stored_lease != LeaseId{};
  record.had_life = stored.has_started() || begins_once;
  record.state = ActorState::returning;
  if (!record.spec.owner().empty() && record.spec.owner() == record.request.quota_owner())
    record.place = rooms_.hold(record.spec.owner(), stored.ByteSizeLong());
  offspring_.add(spawner_of(record.spec.spawner()), record.id);
  return actors_.add(std::move(record));
}

bool BrokerCore::awaits_nodes() const {
  const auto arrived = [this](const std::string& name) { return nodes_.count(name) > 0 || arrivals_.has(name); };
  for (const auto& [id, group] : stored_groups_)
    for (const auto& bundle : group.bundles())
      if (!arrived(bundle.node()))
        return true;
  return false;
}

void BrokerCore::restore_groups() {
  for (auto& [id, stored] : std::exchange(stored_groups_, {})) {
    const auto known = groups_.find(id);
    if (known == groups_.end())
      continue;
    auto request = from_wire(known->second.request);
    if (!request)
      continue;
    request->name = known->second.name;
    std::vector<BundleGrant> bundles;
    for (const auto& kept : stored.bundles()) {
      const auto node = nodes_.find(kept.node());
      if (node == nodes_.end())
        continue; // the bundle is placed anew
      bundles.push_back(bundle_from_wire(kept, node->second.node));
    }
    if (request->shrinks && bundles.empty() && stored.bundles_size() > 0) {
      forget_group(id, Error{Errc::lease_revoked, "the nodes of all its bundles are gone"});
      continue;
    }
    if (auto done = ledger_.restore_group(id, *request, std::move(bundles), world_.now()); !done) {
      log_.add(EventKind::error, request->name, done.error().message());
      forget_group(id, done.error());
      continue;
    }
    // Others may get the places of bundles that are missing: no later broker is to restore those.
    if (ledger_.bundles_of(id).size() < static_cast<std::size_t>(stored.bundles_size()))
      keep(id);
    // A client may have repeated its request for the group before the nodes were back.
    auto& record = groups_.at(id);
    if (auto info = info_of(id, record); info.state() == "placed") {
      if (auto asker = std::exchange(record.asker, std::nullopt))
        asker->deliver(std::move(info));
    } else {
      // The ledger does not tell of it again.
      take_turns();
    }
  }
}

void BrokerCore::start_missing_actors() {
  std::vector<ActorId> missing;
  for (const auto& [id, record] : actors_)
    if (record.state == ActorState::returning)
      missing.push_back(id);
  for (const auto id : missing)
    if (auto* actor = actors_.find(id); actor != nullptr && std::exchange(actor->had_life, false))
      actor_down(*actor, Error{Errc::worker_died, "its node did not come back to the broker that started again"},
                 LifeEnd::lost_place);
    else if (actor != nullptr)
      submit_actor(*actor); // that its last life has ended is counted already
}

// -- to the file ----------------------------------------------------------------------------------

void BrokerCore::answer_when_kept(DoneAnswer answer, Result<void> result) {
  keeper_.when_kept(std::move(answer)).deliver(std::move(result));
}

void BrokerCore::keep(ActorRecord& record) {
  // Of one that nobody else would find, and that may not live again, a node is the only one to know. What has not lived
  // yet, its client asks for again.
  const bool may_live_again = record.spec.max_restarts() != 0 && record.lives.lived();
  if (!keeper_.keeps() || (!record.stored && record.spec.name().empty() && !record.spec.detached() && !may_live_again))
    return;
  record.stored = true;
  v1::HeldLease stored;
  *stored.mutable_actor() = order_of(record);
  stored.mutable_lease()->set_id(last_lease_of(record).value());
  const bool lives = record.lease && (record.state == ActorState::alive || record.state == ActorState::stopping);
  if (lives || (record.state == ActorState::returning && record.had_life))
    stored.mutable_started()->set_lease(last_lease_of(record).value());
  if (record.no_restart)
    stored.mutable_actor()->mutable_spec()->set_max_restarts(0);
  if (const auto config = record.config.encoded()) {
    stored.set_config_type(std::string{config->type_name()});
    stored.set_config(std::string{config->bytes()});
  }
  keeper_.put(StateSection::actors, record.id.value(), stored.SerializeAsString());
}

void BrokerCore::keep(GroupId id) {
  const auto found = groups_.find(id);
  if (!keeper_.keeps() || found == groups_.end())
    return;
  v1::StoredGroup stored;
  stored.set_id(id.value());
  *stored.mutable_request() = found->second.request;
  stored.mutable_request()->set_name(found->second.name);
  for (const auto& bundle : ledger_.bundles_of(id)) {
    const auto node = nodes_.find(bundle.node);
    if (node == nodes_.end())
      continue;
    *stored.add_bundles() = gpuactors::to_wire(bundle, node->second.node);
  }
  keeper_.put(StateSection::groups, id.value(), stored.SerializeAsString());
}

Result<void> BrokerCore::give_way_to(const v1::TakenOver& message) {
  v1::TakenOver own;
  own.set_term(options_.term);
  own.set_since_unix_ns(options_.since_unix_ns);
  if (!gives_way(own, message))
    return {};
  keeper_.put(StateSection::ids, standby_key, message.address());
  const auto& where = message.address();
  return fail(Errc::unavailable,
              fmt::format("the broker at {} serves this cluster, and has the later state: {}", where,
                          keeper_.keeps()
                              ? "this one stands by for it when it is started again"
                              : fmt::format("this one can stand by for it (--standby-of {} --store FILE)", where)));
}

Result<v1::StateChanges> BrokerCore::follow(const v1::FollowState& message) {
  if (!keeper_.keeps())
    return fail(Errc::unsupported, "the broker keeps nothing that another one could go on with: start it with --store");
  GPUACTORS_LET(news, followers_.admit(message, world_.now()));
  if (news != Followers::News::none)
    log_.add(EventKind::standby, followers_.address(), "follows this broker, to take over if it dies");
  // One that starts again asks there whether it was taken for dead.
  if (news == Followers::News::another)
    keeper_.put(StateSection::ids, standby_key, followers_.address());
  GPUACTORS_LET(changes, keeper_.read(message));
  changes.set_lineage(options_.lineage);
  changes.set_settling(settling_);
  for (const auto& [name, node] : nodes_)
    changes.add_nodes(name);
  return changes;
}

void BrokerCore::look_at_followers() {
  if (followers_.is_lost(world_.now()))
    log_.add(EventKind::standby, followers_.address(),
             "does not follow this broker any more: what is kept from here on, it does not have");
}

} // namespace gpuactors
