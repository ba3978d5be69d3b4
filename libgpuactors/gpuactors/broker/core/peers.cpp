// The broker's peers: nodes and clients that come, go, and come back with what they hold.
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/broker/core/printable.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

std::uint64_t BrokerCore::watch(const ContactPtr& contact, Peer peer) {
  const auto id = ++last_peer_;
  peers_.emplace(id, std::move(peer));
  world_.watch(contact, id);
  return id;
}

void BrokerCore::peer_down(std::uint64_t id) {
  const auto peer = peers_.extract(id);
  if (peer.empty())
    return; // the peer has come back on another connection
  look_for_standstill();
  if (peer.mapped().node.empty())
    client_down(peer.mapped().client);
  else if (const auto node = nodes_.find(peer.mapped().node);
           world_.now() < standstill_.patient_until() && node != nodes_.end() && !node->second.leaves)
    node_away(node->first);
  else
    drop_node(peer.mapped().node);
}

void BrokerCore::settled() {
  if (const auto left = standstill_.patient_until() - world_.now(); left > Duration::zero()) // it stood still meanwhile
    return world_.wake(left, Wake::settled);
  settling_ = false;
  if (!arrivals_.empty())
    admit(arrivals_.take());
  // No node has brought a later life of these.
  for (const auto& [id, end] : own_ends_)
    apply_own_end(id, end);
  restore_groups();
  // Clients that have not come back by now are given up.
  std::set<ClientId> gone;
  for (const auto& [id, held] : task_leases_)
    if (clients_.count(held.client) == 0)
      gone.insert(held.client);
  for (const auto& [id, actor] : actors_)
    if (!actor.spec.detached() && clients_.count(actor.client) == 0)
      gone.insert(actor.client);
  for (const auto& [id, group] : groups_)
    if (!group.request.detached() && clients_.count(group.request.client()) == 0)
      gone.insert(group.request.client());
  for (const auto id : gone)
    drop_client(id);
  // First, so that what has ended is not started again.
  end_orphans();
  answer_early();
  start_missing_actors();
  for (auto& call : early_.take_withdrawals())
    withdraw(call.message, std::move(call.answer));
  apply(ledger_.expect_nodes(false, world_.now()));
}

// -- nodes ----------------------------------------------------------------------------------------

void BrokerCore::held_ahead(const v1::HeldAhead& message) {
  arrivals_.add_ahead(message);
}

void BrokerCore::add_node(v1::RegisterNode message, const ContactPtr& agent, DoneAnswer answer) {
  if (agent == nullptr)
    return answer.deliver(fail(Errc::invalid_argument, "a node registers with the handle of its agent"));
  if (auto complete = arrivals_.complete(message); !complete)
    return answer.deliver(std::move(complete));
  const auto& node = message.node();
  if (auto checked =
          check_pulse(fmt::format("node {}", node.name()), message.heartbeat_ms(), message.link_timeout_ms());
      !checked)
    return answer.deliver(fail(checked.error()));
  const auto known = nodes_.find(node.name());
  if (known != nodes_.end() && message.agent() != 0 && known->second.agent_id == message.agent()) {
    peers_.erase(known->second.peer);
    describe_registration(known->second, message, agent);
    // What waits gets its place when it is known what the node holds: granted before, it would count as lost.
    ledger_.pause();
    renew_programs(node.name(), message.programs(), message.has_types() ? &message.types() : nullptr);
    reconcile(message);
    apply(ledger_.resume(world_.now()));
    return answer.deliver({});
  }
  // The node was restarted while the broker stood still: nothing of the one before comes back.
  if (known != nodes_.end() && known->second.agent == nullptr)
    drop_node(node.name());
  arrivals_.add({std::move(message), agent, std::move(answer), {}});
  // Nodes with bundles of one group are admitted together: bundles that are missing then are placed anew.
  if (!settling_ || !awaits_nodes())
    admit(arrivals_.take());
}

void BrokerCore::describe_registration(NodeRecord& record, const v1::RegisterNode& message, const ContactPtr& agent) {
  // The devices of one that returns are those that the ledger has, with the faults that are known.
  auto devices = std::move(*record.node.mutable_devices());
  record.node = message.node();
  if (record.agent_id != 0)
    *record.node.mutable_devices() = std::move(devices);
  record.agent_id = message.agent();
  record.agent = agent;
  record.release = shown_release(message.release());
  record.certificate = message.has_certificate() ? std::optional{message.certificate()} : std::nullopt;
  record.peer = watch(agent, Peer{message.node().name(), 0});
}

void BrokerCore::hear(const NodeReport& report) {
  if (const auto* begun = std::get_if<v1::LeaseStarted>(&report))
    lease_started(*begun);
  else if (const auto* ended = std::get_if<v1::LeaseEnded>(&report))
    lease_ended(*ended);
  else if (const auto* use = std::get_if<v1::HolderUsage::Entry>(&report))
    used(*use);
  else if (const auto* tasks = std::get_if<v1::HolderUsage>(&report))
    tasks_done(*tasks);
  else
    saved(std::get<v1::ActorSaved>(report));
}

void BrokerCore::admit(std::vector<Arrival> arrivals) {
  // The leases that the nodes hold must be in the ledger before anything else is placed there.
  ledger_.pause();
  std::vector<std::pair<const v1::HeldLease*, const v1::Node*>> held;
  for (auto& arrival : arrivals) {
    const auto& node = arrival.message.node();
    auto spec = from_wire(node);
    if (arrival.message.has_types())
      spec.types = type_names(arrival.message.types());
    auto events = ledger_.add_node(std::move(spec), world_.now());
    if (!events) {
      arrival.answer.deliver(fail(events.error()));
      continue;
    }
    auto& record = nodes_[node.name()];
    describe_registration(record, arrival.message, arrival.agent);
    record.types = arrival.message.types();
    record.programs = arrival.message.programs();
    log_.add(EventKind::node_added, node.name());
    apply(*events);
    fail_faulty_devices(node.name(), node);
    for (const auto& lease : arrival.message.held())
      held.emplace_back(&lease, &node);
    if (const auto known = stored_nodes_.find(node.name());
        known != stored_nodes_.end() && known->second.drained() && known->second.agent() == record.agent_id)
      drain_again(node.name(), known->second);
    arrival.answer.deliver({});
  }
  restore_groups();
  // Parent leases have lower ids than the leases that borrow from them, and must be restored first.
  std::sort(held.begin(), held.end(),
            [](const auto& a, const auto& b) { return a.first->lease().id() < b.first->lease().id(); });
  for (const auto& [lease, node] : held)
    adopt(*lease, *node);
  for (const auto& arrival : arrivals) {
    const auto admitted = nodes_.find(arrival.message.node().name());
    if (admitted == nodes_.end() || admitted->second.agent_id != arrival.message.agent())
      continue;
    for (const auto& own : arrival.message.own_ends())
      take_own_end(own);
    for (const auto& report : arrival.reports)
      hear(report);
  }
  apply(ledger_.resume(world_.now()));
  answer_early();
}

void BrokerCore::reconcile(const v1::RegisterNode& message) {
  const auto& node = message.node();
  log_.add(EventKind::node_returned, node.name());
  nodes_.at(node.name()).leaves = false;
  // First: what ends below makes room for leases that the node cannot hold yet.
  std::set<LeaseId> there;
  for (const auto& held : message.held())
    there.insert(LeaseId{held.lease().id()});
  std::vector<Lease> lost;
  ledger_.for_each_held(node.name(), [&](const Lease& lease) {
    if (there.count(lease.id) == 0)
      lost.push_back(lease);
  });
  fail_faulty_devices(node.name(), node);
  // Before what is missing counts as lost.
  for (const auto& own : message.own_ends())
    take_own_end(own);
  for (const auto& lease : lost)
    lease_ended(lease_end(lease.id.value(), lease.epoch,
                          Error{Errc::worker_died, "the order to start it, or the report of its end, was lost with the "
                                                   "connection to its node"}));
  for (const auto& held : message.held()) {
    const LeaseId id{held.lease().id()};
    if (const auto* rest = ledger_.find_remains(id)) {
      take_over_saved(held);
      tell_agent_again_to_end(*rest);
      continue;
    }
    if (ledger_.find_lease(id) == nullptr)
      adopt(held, node);
    else if (held.has_started())
      lease_started(held.started());
    take_over_saved(held);
    // The order to end the lease may have been lost.
    const auto* lease = ledger_.find_lease(id);
    if (lease == nullptr)
      continue;
    const auto task = task_leases_.find(id);
    const auto* holder = actors_.holder_of(id);
    if ((task != task_leases_.end() && task->second.ending)
        || (holder != nullptr && holder->state == ActorState::stopping))
      tell_agent_again_to_end(*lease);
  }
  // What it holds has its place now; before, others could have got it.
  apply(ledger_.unsuspend_node(node.name(), world_.now()), "unsuspend_node");
}

void BrokerCore::take_over_saved(const v1::HeldLease& held) {
  if (held.actor().saved_type().empty())
    return;
  v1::ActorSaved message;
  message.set_lease(held.lease().id());
  message.set_epoch(held.lease().epoch());
  message.set_type(held.actor().saved_type());
  message.set_data(held.actor().saved());
  saved(message);
}

void BrokerCore::drop_node(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end())
    return;
  found->second.agent = nullptr;
  if (found->second.leaves)
    log_.add(EventKind::node_left, name, "it was stopped");
  else
    log_.add(EventKind::node_lost, name, "the connection to its agent is gone");
  // The ledger reports the node's leases as lost; the node's record is still needed to name them.
  std::vector<LeaseId> remains;
  ledger_.for_each_held(name, [&](const Lease& lease) {
    if (ledger_.find_remains(lease.id) != nullptr)
      remains.push_back(lease.id);
  });
  apply(ledger_.remove_node(name, world_.now()), "remove_node");
  for (const auto id : remains) {
    leave_lost(id);
    end_offspring(id, "the task"); // an actor's have ended with its life
  }
  std::erase_if(graces_, [this](const auto& item) {
    return ledger_.find_lease(item.first) == nullptr && ledger_.find_remains(item.first) == nullptr;
  });
  // Whoever comes under this name later is another agent.
  if (found->second.leaves)
    forget_drained(name);
  nodes_.erase(name);
}

// -- clients --------------------------------------------------------------------------------------

bool BrokerCore::speaks_for(std::uint64_t client, const Caller& caller) const {
  if (caller.administers)
    return true;
  if (const auto known = clients_.find(client); known != clients_.end())
    return known->second.owner == caller.name;
  // A client of an earlier broker: what nodes and the store know of it tells its name.
  const auto is_others = [&](std::uint64_t number, const std::string& owner) {
    return number == client && owner != caller.name;
  };
  return std::none_of(actors_.begin(), actors_.end(),
                      [&](const auto& item) { return is_others(item.second.client, item.second.spec.owner()); })
         && std::none_of(groups_.begin(), groups_.end(), [&](const auto& item) {
              return is_others(item.second.request.client(), item.second.request.owner());
            });
}

Result<void> BrokerCore::check_room(const v1::Hello& message, const Caller& caller) const {
  if (static_cast<std::size_t>(message.leases_size()) > limits::claimed_leases)
    return fail(Errc::invalid_argument, fmt::format("the client says that it holds {} leases: at most {} are allowed",
                                                    message.leases_size(), limits::claimed_leases));
  if (caller.administers || clients_.count(message.client()) > 0)
    return {};
  const auto own = static_cast<std::size_t>(std::count_if(
      clients_.begin(), clients_.end(), [&](const auto& client) { return client.second.owner == caller.name; }));
  if (own < limits::clients_per_name)
    return {};
  return fail(Errc::queue_full, fmt::format("\"{}\" has {} programs in the cluster, those included that are away and "
                                            "may come back, which is as many as one client may have",
                                            caller.name, own));
}

Result<void> BrokerCore::hello(const v1::Hello& message, const Caller& caller, const ContactPtr& port) {
  if (port == nullptr || message.client() == 0)
    return fail(Errc::invalid_argument, "a client says hello with its number and its port");
  // Its name would be none, and the client of that name could not come back.
  if (caller == Caller{{}, false})
    return fail(Errc::unavailable, "the connection on which this came has ended");
  if (auto checked = check_pulse("this program", message.heartbeat_ms(), message.link_timeout_ms()); !checked)
    return checked;
  GPUACTORS_TRY(check_room(message, caller));
  auto& record = clients_[message.client()];
  // One that says it again on its connection is watched already.
  const bool is_watched = peers_.count(record.peer) > 0 && record.port != nullptr && record.port->same_as(*port);
  if (!is_watched) {
    peers_.erase(record.peer);
    early_.forget_waits_of(message.client());
    for (auto& [id, actor] : actors_)
      actor.until_ended.forget_client(message.client());
  }
  record.name = printable(std::string{head_of(message.name(), limits::name_length)});
  if (std::exchange(record.away_until, std::nullopt))
    log_.add(EventKind::client_returned, record.name);
  record.grace = std::min<Duration>(from_milliseconds(message.reconnect_grace_ms()), limits::reconnect_grace_most);
  record.owner = caller.name;
  record.leaves = false;
  record.release = shown_release(message.release());
  record.port = port;
  if (!is_watched)
    record.peer = watch(port, Peer{{}, message.client()});
  record.claimed.clear();
  for (const auto lease : message.leases())
    record.claimed.insert(LeaseId{lease});
  end_stray_leases(message.client(), record.claimed);
  // Earlier requests to give leases back may have been lost with the old connection: repeats them.
  for (auto& [id, lease] : task_leases_)
    if (lease.client == message.client() && std::exchange(lease.reclaimed, false))
      reclaim(id, lease);
  return {};
}

void BrokerCore::goodbye(const v1::Goodbye& message) {
  if (!message.node().empty())
    return node_leaves(message);
  if (message.has_task())
    return task_ended(spawner_of(message.task()));
  if (const auto client = clients_.find(message.client()); client != clients_.end())
    client->second.leaves = true;
}

void BrokerCore::node_leaves(const v1::Goodbye& message) {
  arrivals_.leave(message.node(), message.agent());
  const auto node = nodes_.find(message.node());
  if (node == nodes_.end() || node->second.agent_id != message.agent())
    return;
  node->second.leaves = true;
  // Its workers end now: what is placed there would only fail. It may be drained already.
  if (auto events = ledger_.drain_node(message.node(), world_.now()))
    apply(*events);
}

void BrokerCore::client_down(ClientId id) {
  auto& record = clients_.at(id);
  const auto grace = std::max<Duration>(record.grace, standstill_.patient_until() - world_.now());
  if (record.leaves || grace <= Duration::zero())
    return drop_client(id);
  record.port = nullptr;
  record.away_until = deadline_after(world_.now(), grace);
  log_.add(EventKind::client_away, record.name,
           fmt::format("its connection is lost; what it has is kept for {:.1f} s", to_seconds(grace)));
  // Grants would reach nobody; the client asks again when it is back.
  cancel_requests(id);
  std::vector<LeaseId> unheard;
  for (const auto& [lease, held] : task_leases_)
    if (held.client == id && held.starting)
      unheard.push_back(lease);
  for (const auto lease : unheard)
    end_task_lease(lease);
  remind({*record.away_until, ActorId{}, id});
}

void BrokerCore::cancel_requests(ClientId id) {
  std::vector<RequestId> waiting;
  for (const auto& [request, task] : task_requests_)
    if (task.client == id)
      waiting.push_back(request);
  for (const auto request : waiting)
    if (take_task_request(request)) // else granted when the request before it was withdrawn
      withdraw_from_ledger(request, "cancel");
}

void BrokerCore::end_stray_leases(ClientId id, const std::set<LeaseId>& claimed) {
  cancel_requests(id);
  std::vector<LeaseId> strays;
  for (const auto& [lease, held] : task_leases_)
    if (held.client == id && claimed.count(lease) == 0)
      strays.push_back(lease);
  for (const auto lease : strays)
    end_task_lease(lease);
}

void BrokerCore::drop_client(ClientId id) {
  clients_.erase(id);
  const auto [first, last] = withdrawals_of(id);
  withdrawn_.erase(first, last);
  end_stray_leases(id, {});
  early_.drop_client(id);
  std::vector<ActorId> actors;
  for (auto& [actor, record] : actors_) {
    record.until_alive.drop_client(id);
    record.until_ended.drop_client(id);
    std::erase_if(record.until_name_free, [id](NameWaiter& spawn) {
      const bool gone = spawn.message.client() == id;
      if (gone)
        spawn.answer.deliver(fail(Errc::unavailable, "the client that asked for it is gone"));
      return gone;
    });
    if (record.client == id && !record.spec.detached())
      actors.push_back(actor);
  }
  for (const auto actor : actors)
    if (auto* found = actors_.find(actor); found != nullptr) {
      found->no_restart = true;
      kill(*found, stop_grace_ms, "its client is gone");
    }
  std::vector<GroupId> groups;
  for (const auto& [group, record] : groups_)
    if (record.request.client() == id && !record.request.detached())
      groups.push_back(group);
  for (const auto group : groups)
    end_group(group);
}

} // namespace gpuactors
