// The broker's peers: nodes and clients that come, go, and come back with what they hold.
#include <gpuactors/broker/convert.hpp>
#include <gpuactors/broker/resource_broker.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

std::uint64_t ResourceBroker::watch(const caf::strong_actor_ptr& handle, Peer peer) {
  const auto id = ++last_peer_;
  peers_.emplace(id, std::move(peer));
  handle->get()->attach_functor([self = caf::actor_cast<caf::actor_addr>(this), id] {
    v1::PeerDown message;
    message.set_peer(id);
    caf_version::post(caf::actor_cast<caf::strong_actor_ptr>(self), std::move(message));
  });
  return id;
}

void ResourceBroker::peer_down(std::uint64_t id) {
  const auto peer = peers_.extract(id);
  if (peer.empty())
    return; // it has come back on another connection meanwhile
  if (!peer.mapped().node.empty())
    drop_node(peer.mapped().node);
  else
    drop_client(peer.mapped().client);
}

void ResourceBroker::settled() {
  settling_ = false;
  // Who has not come back by now will not.
  std::set<ClientId> gone;
  for (const auto& [id, held] : task_leases_)
    if (clients_.count(held.client) == 0)
      gone.insert(held.client);
  for (const auto& [id, actor] : actors_)
    if (clients_.count(actor.client) == 0)
      gone.insert(actor.client);
  for (const auto id : gone)
    drop_client(id);
  apply(ledger_.expect_nodes(false, Clock::now()));
}

// -- nodes ----------------------------------------------------------------------------------------

caf::result<v1::Done> ResourceBroker::add_node(const v1::RegisterNode& message, const caf::strong_actor_ptr& agent) {
  if (agent == nullptr)
    return to_caf(Error{Errc::invalid_argument, "a node registers with the handle of its agent"});
  const auto& node = message.node();
  if (const auto known = nodes_.find(node.name());
      known != nodes_.end() && message.agent() != 0 && known->second.agent_id == message.agent()) {
    peers_.erase(known->second.peer);
    known->second.agent = agent;
    known->second.peer = watch(agent, Peer{node.name(), 0});
    reconcile(known->second, message);
    return v1::Done{};
  }
  // What is held there must be in the books before anything else is placed there.
  ledger_.pause();
  auto events = ledger_.add_node(from_wire(node), Clock::now());
  if (!events) {
    apply(ledger_.resume(Clock::now()));
    return to_caf(events.error());
  }
  auto& record = nodes_[node.name()];
  record.node = node;
  record.agent_id = message.agent();
  record.agent = agent;
  record.peer = watch(agent, Peer{node.name(), 0});
  log_.add(Clock::now(), "node_added", node.name());
  apply(*events);
  std::vector<const v1::HeldLease*> held;
  for (const auto& lease : message.held())
    held.push_back(&lease);
  // Lenders are older than borrowers.
  std::sort(held.begin(), held.end(), [](const auto* a, const auto* b) { return a->lease().id() < b->lease().id(); });
  for (const auto* lease : held)
    adopt(*lease, node);
  apply(ledger_.resume(Clock::now()));
  return v1::Done{};
}

void ResourceBroker::reconcile(NodeRecord& record, const v1::RegisterNode& message) {
  const auto& node = message.node();
  log_.add(Clock::now(), "node_returned", node.name());
  std::set<LeaseId> there;
  for (const auto& held : message.held())
    there.insert(LeaseId{held.lease().id()});
  std::vector<Lease> lost;
  for (const auto& lease : ledger_.leases())
    if (lease.node == node.name() && there.count(lease.id) == 0)
      lost.push_back(lease);
  for (const auto& lease : lost) {
    v1::LeaseEnded ended;
    ended.set_lease(lease.id.value());
    ended.set_epoch(lease.epoch);
    ended.set_error(static_cast<std::uint32_t>(Errc::worker_died));
    ended.set_text("the order to start it, or the report of its end, was lost with the connection to its node");
    lease_ended(ended);
  }
  for (const auto& held : message.held()) {
    const LeaseId id{held.lease().id()};
    if (ledger_.find_lease(id) == nullptr)
      adopt(held, node);
    else if (held.has_started()) {
      caf::strong_actor_ptr none;
      lease_started(held.started(), none, none);
    }
    // An order to end it may have been lost.
    const auto* lease = ledger_.find_lease(id);
    if (lease == nullptr)
      continue;
    const auto task = task_leases_.find(id);
    const auto holder = actor_leases_.find(id);
    if ((task != task_leases_.end() && task->second.ending)
        || (holder != actor_leases_.end() && actors_.at(holder->second).state == ActorState::stopping))
      tell_agent_to_end(*lease, 0);
  }
  static_cast<void>(record);
}

void ResourceBroker::adopt(const v1::HeldLease& held, const v1::Node& node) {
  auto lease = from_wire(held.lease());
  // Back from the numbers that everybody knows to places in the node's offer.
  for (auto& granted : lease.devices) {
    const auto at = std::find_if(node.devices().begin(), node.devices().end(),
                                 [&](const v1::Device& device) { return device.index() == granted.index; });
    granted.index = static_cast<int>(at - node.devices().begin());
  }
  // The books of a group are gone with the broker that kept them: what runs in it goes on as if it had none.
  if (lease.group && ledger_.bundles_of(lease.group).empty()) {
    lease.group = GroupId{};
    lease.bundle = 0;
  }
  const auto id = lease.id;
  if (auto restored = ledger_.restore(lease); !restored) {
    log_.add(Clock::now(), "error", fmt::format("lease {}", id.value())).set_reason(restored.error().message());
    tell_agent_to_end(lease, 0);
    return;
  }
  auto& event = log_.add(Clock::now(), "adopted", lease.name);
  *event.mutable_lease() = held.lease();
  last_request_ = std::max(last_request_, lease.request.value());
  // Of this broker's own time: it was lost here, or has ended, before the node came back.
  const bool ours = options_.last_id < id.value();
  if (held.has_actor() && !ours && actors_.count(ActorId{held.actor().actor()}) == 0)
    return adopt_actor(held);
  auto& task = task_leases_[id];
  task.client = held.client();
  const auto client = clients_.find(held.client());
  if (held.has_actor() || ours || (client != clients_.end() && client->second.claimed.count(id) == 0))
    end_task_lease(id);
}

void ResourceBroker::adopt_actor(const v1::HeldLease& held) {
  const auto& order = held.actor();
  ActorRecord record;
  record.id = ActorId{order.actor()};
  record.spec = order.spec();
  record.config = Payload::from_bytes(held.config_type(), held.config());
  record.request = order.request();
  record.client = held.client();
  record.client_request = held.client_request();
  record.restarts = order.restarts();
  record.waiting_for = RequestId{held.lease().request()};
  record.lease = held.lease();
  record.state = held.has_started() ? ActorState::alive : ActorState::starting;
  record.pid = held.started().pid();
  record.address = held.started().address();
  last_actor_ = std::max(last_actor_, order.actor());
  actor_leases_[LeaseId{held.lease().id()}] = record.id;
  spawns_[{record.client, record.client_request}] = record.id;
  if (!record.spec.name().empty())
    names_[{record.spec.name_space(), record.spec.name()}] = record.id;
  actors_.emplace(record.id, std::move(record));
}

void ResourceBroker::drop_node(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end())
    return;
  found->second.agent = nullptr;
  log_.add(Clock::now(), "node_lost", name).set_reason("the connection to its agent is gone");
  // Its leases end as lost; the record is needed to speak of them.
  apply(ledger_.remove_node(name, Clock::now()), "remove_node");
  nodes_.erase(name);
}

caf::result<v1::Done> ResourceBroker::drain(const v1::DrainNode& message) {
  auto events = ledger_.drain_node(message.name(), Clock::now());
  if (!events)
    return to_caf(events.error());
  log_.add(Clock::now(), "node_drained", message.name());
  apply(*events);
  return v1::Done{};
}

// -- clients --------------------------------------------------------------------------------------

caf::result<v1::Done> ResourceBroker::hello(const v1::Hello& message, const caf::strong_actor_ptr& port) {
  if (port == nullptr || message.client() == 0)
    return to_caf(Error{Errc::invalid_argument, "a client says hello with its number and its port"});
  auto& record = clients_[message.client()];
  peers_.erase(record.peer);
  record.name = message.name();
  record.port = port;
  record.peer = watch(port, Peer{{}, message.client()});
  record.claimed.clear();
  for (const auto lease : message.leases())
    record.claimed.insert(LeaseId{lease});
  end_stray_leases(message.client(), record.claimed);
  return v1::Done{};
}

void ResourceBroker::end_stray_leases(ClientId id, const std::set<LeaseId>& claimed) {
  std::vector<RequestId> waiting;
  for (const auto& [request, task] : task_requests_)
    if (task.client == id)
      waiting.push_back(request);
  for (const auto request : waiting) {
    take_task_request(request);
    apply(ledger_.cancel(request, Clock::now()), "cancel");
  }
  std::vector<LeaseId> strays;
  for (const auto& [lease, held] : task_leases_)
    if (held.client == id && claimed.count(lease) == 0)
      strays.push_back(lease);
  for (const auto lease : strays)
    end_task_lease(lease);
}

void ResourceBroker::drop_client(ClientId id) {
  clients_.erase(id);
  end_stray_leases(id, {});
  std::vector<ActorId> actors;
  for (const auto& [actor, record] : actors_)
    if (record.client == id && !record.spec.detached())
      actors.push_back(actor);
  for (const auto actor : actors)
    if (const auto found = actors_.find(actor); found != actors_.end()) {
      found->second.no_restart = true;
      kill(found->second, std::chrono::milliseconds{limits::stop_grace}.count());
    }
  std::vector<GroupId> groups;
  for (const auto& [group, record] : groups_)
    if (record.client == id && !record.detached)
      groups.push_back(group);
  for (const auto group : groups)
    end_group(group);
}

} // namespace gpuactors
