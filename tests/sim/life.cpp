// What happens in a simulated cluster: what clients ask for, and how all of it ends.
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <sim/parts.hpp>

#include <algorithm>
#include <array>

namespace simulation {

Cluster::Client& Cluster::add_client() {
  auto& client = *clients_.emplace_back(std::make_unique<Client>());
  client.id = ++last_client_;
  // One of three administers.
  if (faults_.quotas > 0 && client.id % 3 != 0)
    client.caller = {client.id % 3 == 1 ? "alice" : "bob", false};
  greet(client);
  return client;
}

Cluster::Client* Cluster::some_client() {
  std::vector<Client*> here;
  for (const auto& client : clients_)
    if (!client->gone)
      here.push_back(client.get());
  return here[pick(here.size())];
}

void Cluster::run_for(Duration time) {
  const auto until = time_.now() + time;
  while (time_.step(until)) {
    // nop
  }
}

v1::ClusterState Cluster::state() {
  v1::GetState message;
  message.set_events_from(1);
  return core_->state(message);
}

// -- what clients ask for -------------------------------------------------------------------------

template <class T, class Done>
BrokerAnswer<T> Cluster::answer(Client& client, const Asked& asked, Done done) {
  return BrokerAnswer<T>{[this, &client, number = asked.number, link = asked.link, done](Result<T> result) {
    from_broker(link, [this, &client, number, done, result = std::move(result)] {
      answered(client, number, result ? nullptr : &result.error());
      if (result)
        done(result);
    });
  }};
}

v1::ResourceRequest Cluster::some_need() {
  v1::ResourceRequest need;
  constexpr std::array<std::int64_t, 5> units = {2'500, 3'000, 6'000, 10'000, 20'000};
  need.set_gpu_units(units.at(pick(units.size())));
  if (need.gpu_units() < 10'000)
    need.set_memory_bytes((1 + pick(3)) << 20U);
  need.set_priority(static_cast<int>(pick(3)));
  need.set_isolated(chance(10));
  if (chance(10))
    (*need.mutable_resource_units())["neuron_cores"] = 10'000;
  if (chance(20))
    need.set_queue_timeout_ms(1 + pick(3'000));
  return need;
}

void Cluster::set_some_owner(const Client& client, v1::ResourceRequest& need) {
  // As a worker does for what runs there: it administers, and says for whom it asks. What draws from another owner's
  // lease or group would be its own owner's if a broker that starts again did not know that one.
  if (faults_.quotas > 0 && client.caller.administers && need.parent_lease() == 0 && need.group() == 0 && chance(50))
    need.set_quota_owner(chance(50) ? "alice" : "bob");
}

std::string Cluster::some_type() {
  constexpr std::array<const char*, 8> types = {"T", "T", "T", "U", "U", "V", "V", "W"};
  return types.at(pick(types.size()));
}

std::uint64_t Cluster::some_spawner() {
  std::vector<std::uint64_t> leases;
  if (chance(30))
    for (const auto& node : nodes_)
      for (const auto& [lease, held] : node->held)
        leases.push_back(lease);
  return leases.empty() ? 0 : leases[pick(leases.size())];
}

void Cluster::acquire(Client& client) {
  v1::AcquireLease message;
  *message.mutable_request() = some_need();
  if (faults_.mixed_types) {
    message.mutable_request()->set_task(some_type());
    message.mutable_request()->set_name(message.request().task());
    message.mutable_request()->set_wait_for_nodes(chance(20));
  }
  message.set_client(client.id);
  if (!client.leases.empty() && chance(15))
    message.mutable_request()->set_parent_lease(client.leases.begin()->first);
  else if (!client.groups.empty() && chance(30))
    message.mutable_request()->set_group(*client.groups.begin());
  set_some_owner(client, *message.mutable_request());
  note(fmt::format("client {} acquires", client.id), message);
  begin(client, "acquire", [this, &client, message](BrokerCore& core, const Asked& asked) mutable {
    message.set_client_request(asked.number);
    core.acquire(message, client.caller, answer<Grant>(client, asked, [this, &client](const Result<Grant>& grant) {
                   const auto id = grant->granted.lease().id();
                   client.leases[id] = grant->granted.lease().epoch();
                   // Some are kept for the next task.
                   if (chance(60))
                     time_.at(time_.now() + soon(400), [this, &client, id] { give_back(client, id); });
                 }));
  });
}

void Cluster::spawn(Client& client) {
  v1::SpawnActor message;
  message.mutable_spec()->set_type(faults_.mixed_types ? some_type() : "T");
  message.mutable_spec()->set_max_restarts(static_cast<int>(pick(4)) - 1);
  message.mutable_spec()->set_detached(chance(30));
  if (chance(30)) {
    message.mutable_spec()->set_name(fmt::format("a{}", pick(3)));
    message.set_get_if_exists(chance(70));
  }
  if (chance(10))
    message.mutable_spec()->set_spawn_timeout_ms(1 + pick(500));
  *message.mutable_request() = some_need();
  if (!client.groups.empty() && chance(30))
    message.mutable_request()->set_group(*client.groups.begin());
  if (const auto lease = some_spawner()) {
    message.mutable_spec()->mutable_spawner()->set_lease(lease);
    if (chance(50))
      message.mutable_request()->set_parent_lease(lease);
  }
  set_some_owner(client, *message.mutable_request());
  message.set_client(client.id);
  note(fmt::format("client {} spawns", client.id), message);
  begin(client, "spawn", [this, &client, message](BrokerCore& core, const Asked& asked) mutable {
    message.set_client_request(asked.number);
    core.spawn_actor(message, client.caller, {},
                     answer<FoundActor>(client, asked, [&client](const Result<FoundActor>& found) {
                       client.actors.insert(found->info.id());
                     }));
  });
}

void Cluster::kill(Client& client, std::uint64_t actor) {
  v1::KillActor message;
  message.set_id(actor);
  message.set_no_restart(calm_ || chance(60));
  message.set_client(client.id);
  if (message.no_restart())
    killed_.insert(actor);
  note(fmt::format("client {} kills", client.id), message);
  begin(client, "kill", [this, &client, message](BrokerCore& core, const Asked& asked) mutable {
    message.set_again(asked.again);
    message.set_client_request(asked.number);
    core.kill(message, {}, answer<void>(client, asked, [this, message](const Result<void>&) {
                // Who asks again is told so, too, of one that is not known, and may be brought back later.
                if (message.no_restart() && !message.again())
                  told_ended_.insert(message.id());
              }));
  });
}

void Cluster::find(Client& client) {
  v1::FindActor message;
  message.set_name(fmt::format("a{}", pick(3)));
  begin(client, "find", [this, &client, message](BrokerCore& core, const Asked& asked) {
    core.find(message, answer<FoundActor>(client, asked, [&client](const Result<FoundActor>& found) {
                client.actors.insert(found->info.id());
              }));
  });
}

void Cluster::mourn(Client& client, std::uint64_t actor) {
  v1::FindActor message;
  message.set_id(actor);
  message.set_client(client.id);
  message.set_until_ended(true);
  note(fmt::format("client {} mourns", client.id), message);
  begin(client, "mourn", [this, &client, message](BrokerCore& core, const Asked& asked) {
    core.find(message, answer<FoundActor>(client, asked, [this](const Result<FoundActor>& found) {
                if (found->info.state() != "ended")
                  violations_.push_back(
                      fmt::format("actor {} is {} for who waits for its end", found->info.id(), found->info.state()));
                told_ended_.insert(found->info.id());
              }));
  });
  client.asked.at(client.last_number)->mourned = actor;
}

void Cluster::submit_group(Client& client) {
  v1::SubmitGroup message;
  for (std::uint64_t bundle = 0; bundle <= pick(2); ++bundle)
    message.add_bundles()->set_gpu_units(chance(50) ? 6'000 : 10'000);
  message.set_strategy(static_cast<v1::SubmitGroup::Strategy>(pick(4)));
  message.set_detached(chance(30));
  message.set_shrinks(chance(30));
  if (chance(30))
    message.set_queue_timeout_ms(1 + pick(3'000));
  message.set_client(client.id);
  if (const auto lease = some_spawner())
    message.mutable_spawner()->set_lease(lease);
  note(fmt::format("client {} groups", client.id), message);
  begin(client, "group", [this, &client, message](BrokerCore& core, const Asked& asked) mutable {
    message.set_client_request(asked.number);
    core.submit_group(message, client.caller,
                      answer<v1::GroupInfo>(client, asked, [&client](const Result<v1::GroupInfo>& info) {
                        client.groups.insert(info->id());
                      }));
  });
}

void Cluster::release_group(Client& client, std::uint64_t group) {
  client.groups.erase(group);
  v1::ReleaseGroup message;
  message.set_id(group);
  note(fmt::format("client {} releases group", client.id), message);
  begin(client, "release group", [this, &client, message](BrokerCore& core, const Asked& asked) mutable {
    message.set_again(asked.again);
    core.release_group(message, {}, answer<void>(client, asked, [](const Result<void>&) {}));
  });
}

void Cluster::give_back(Client& client, std::uint64_t lease) {
  const auto held = client.leases.extract(lease);
  if (held.empty())
    return;
  v1::ReleaseLease message;
  message.set_lease(lease);
  message.set_epoch(held.mapped());
  // Without a connection: the next hello does not claim it.
  to_broker(client.link, [message](BrokerCore& core) { core.release(message, {}); });
}

void Cluster::withdraw(Client& client, std::uint64_t number) {
  const auto asked = client.asked.find(number);
  if (asked == client.asked.end() || !client.greeted)
    return;
  if (asked->second->what == "acquire") {
    v1::CancelAcquire message;
    message.set_client(client.id);
    message.set_client_request(number);
    to_broker(client.link, [message](BrokerCore& core) { core.cancel(message); });
  } else if (asked->second->what == "spawn" || asked->second->what == "group") {
    client.withdrawn.insert(number);
    v1::Withdraw message;
    message.set_client(client.id);
    message.set_client_request(number);
    note(fmt::format("client {} withdraws", client.id), message);
    begin(client, "withdraw", [this, &client, message](BrokerCore& core, const Asked& again) {
      core.withdraw(message, answer<void>(client, again, [](const Result<void>&) {}));
    });
  }
}

void Cluster::act() {
  auto& client = *some_client();
  const auto what = pick(100);
  if (what < 40)
    acquire(client);
  else if (what < 60)
    spawn(client);
  else if (what < 66)
    submit_group(client);
  else if (what < 70)
    find(client);
  else if (what < 73 && !client.actors.empty())
    mourn(client, *std::next(client.actors.begin(), static_cast<std::ptrdiff_t>(pick(client.actors.size()))));
  else if (what < 80 && !client.groups.empty())
    release_group(client, *client.groups.begin());
  else if (what < 88 && !client.actors.empty())
    kill(client, *std::next(client.actors.begin(), static_cast<std::ptrdiff_t>(pick(client.actors.size()))));
  else if (what < 94 && !client.leases.empty())
    give_back(client, client.leases.begin()->first);
  else if (!client.asked.empty())
    withdraw(client, std::next(client.asked.begin(), static_cast<std::ptrdiff_t>(pick(client.asked.size())))->first);
}

// -- the history ----------------------------------------------------------------------------------

void Cluster::live(int actions) {
  for (int count = 0; count < actions; ++count) {
    run_for(soon(40));
    act();
    fail_something();
  }
}

// -- the end --------------------------------------------------------------------------------------

void Cluster::calm() {
  calm_ = true;
  run_for(20s); // all have come back by then
  for (const auto& node : nodes_) {
    v1::DrainNode message;
    message.set_name(node->offer.name());
    message.set_resume(true);
    static_cast<void>(core_->drain(message)); // one that is not drained stays so
  }
  run_for(100s);
  count_ends();
  // What was granted or given back a moment ago is still on its way.
  for (int tries = 0; tries < 10 && !disagreements().empty(); ++tries)
    run_for(1s);
}

std::vector<std::string> Cluster::disagreements() {
  std::vector<std::string> result;
  const auto complain = [&](std::string what) { result.push_back(std::move(what)); };
  const auto now = state();
  std::map<std::uint64_t, std::string> known;
  std::set<std::uint64_t> of_actors;
  for (const auto& lease : now.leases())
    known[lease.id()] = lease.node();
  for (const auto& actor : now.actors()) {
    if (told_ended_.contains(actor.id()))
      complain(fmt::format("actor {} is there, whose end was told", actor.id()));
    if (actor.state() == "alive")
      of_actors.insert(actor.lease().id());
    else if (actor.state() != "waiting")
      complain(fmt::format("actor {} is {}", actor.id(), actor.state()));
  }
  std::set<std::uint64_t> of_clients;
  for (const auto& client : clients_) {
    for (const auto& [lease, epoch] : client->leases)
      if (!of_clients.insert(lease).second)
        complain(fmt::format("two clients have lease {}", lease));
    for (const auto& [number, asked] : client->asked) {
      const bool mourns = asked->what == "mourn"
                          && std::any_of(now.actors().begin(), now.actors().end(),
                                         [&](auto& actor) { return actor.id() == asked->mourned; });
      if (!mourns && asked->what != "acquire" && asked->what != "spawn" && asked->what != "group"
          && asked->what != "find")
        complain(fmt::format("client {} has no answer to {}", client->id, asked->what));
    }
  }
  std::set<std::uint64_t> held_now;
  for (const auto& node : nodes_)
    for (const auto& [lease, held] : node->held)
      held_now.insert(lease);
  for (const auto& node : nodes_) {
    if (!node->registered)
      complain(fmt::format("node {} is not registered", node->offer.name()));
    for (auto& what : disagreements_of(*node))
      complain(std::move(what));
    for (const auto& [lease, held] : node->held) {
      if (known.count(lease) == 0)
        complain(fmt::format("node {} holds lease {}, which the broker does not know", node->offer.name(), lease));
      if (!held.has_started())
        complain(fmt::format("lease {} has not started", lease));
      if (!held.has_actor())
        continue;
      const auto owner = std::find_if(clients_.begin(), clients_.end(),
                                      [&](const auto& client) { return client->id == held.client(); });
      const auto& spec = held.actor().spec();
      if (!spec.detached() && (*owner)->gone)
        complain(fmt::format("actor {} is of client {}, which is gone", held.actor().actor(), held.client()));
      const auto spawner = spec.spawner().lease();
      coverage_["lives with its spawner"] += spawner != 0 ? 1 : 0;
      if (spawner != 0 && held_now.count(spawner) == 0)
        complain(
            fmt::format("actor {} lives on without lease {}, which has spawned it", held.actor().actor(), spawner));
      if (spec.name().empty() && (*owner)->withdrawn.count(held.client_request()) > 0)
        complain(fmt::format("actor {} was withdrawn", held.actor().actor()));
    }
    std::erase_if(
        known, [&](const auto& item) { return item.second == node->offer.name() && node->held.count(item.first) > 0; });
  }
  // A life that began later was started in ignorance of the end.
  for (const auto& node : nodes_)
    for (const auto& own : node->own_ends)
      for (const auto& other : nodes_)
        for (const auto& [lease, held] : other->held)
          if (held.has_actor() && held.actor().actor() == own.actor() && lease <= own.end().lease())
            complain(fmt::format("actor {} lives under lease {}, though it has ended itself", own.actor(), lease));
  for (const auto& [lease, where] : known)
    complain(fmt::format("the broker knows lease {}, which node {} does not hold", lease, where));
  std::size_t waiting = 0;
  for (const auto& client : clients_)
    for (const auto& [number, asked] : client->asked)
      waiting += asked->what == "acquire" ? 1 : 0;
  for (const auto& actor : now.actors())
    waiting += actor.state() == "waiting" ? 1 : 0;
  for (const auto& group : now.groups())
    waiting += group.state() == "waiting" ? 1 : 0;
  if (waiting != static_cast<std::size_t>(now.queue_size()))
    complain(fmt::format("{} wait, and {} are in the queue", waiting, now.queue_size()));
  for (const auto& lease : now.leases())
    if (of_actors.count(lease.id()) + of_clients.count(lease.id()) != 1)
      complain(fmt::format("lease {} is of {} actors and {} clients", lease.id(), of_actors.count(lease.id()),
                           of_clients.count(lease.id())));
  return result;
}

void Cluster::count_ends() {
  v1::GetState message;
  message.set_ended(limits::ended_actors);
  const auto now = core_->state(message);
  for (const auto& ended : now.ended())
    coverage_["ended with its spawner"] += ended.reason().find("has spawned it") != std::string::npos ? 1 : 0;
}

std::vector<std::string> Cluster::forsaken() {
  std::set<std::uint64_t> there;
  const auto now = state();
  for (const auto& actor : now.actors())
    there.insert(actor.id());
  std::vector<std::string> result;
  for (const auto& [key, actor] : lasting_) {
    const auto is_in = [&ids = actor.ids](const std::set<std::uint64_t>& some) {
      return std::any_of(ids.begin(), ids.end(), [&](auto id) { return some.count(id) > 0; });
    };
    const auto client =
        std::find_if(clients_.begin(), clients_.end(), [id = key.first](const auto& one) { return one->id == id; });
    const bool ended = is_in(killed_) || (*client)->withdrawn.count(key.second) > 0;
    coverage_["lasts"] += ended ? 0 : 1;
    if (!ended && !is_in(there))
      result.push_back(fmt::format("actor {} is not there any more", *actor.ids.begin()));
  }
  return result;
}

std::vector<std::string> Cluster::given_up() {
  std::vector<std::string> result;
  v1::GetState message;
  message.set_ended(limits::ended_actors);
  const auto now = core_->state(message);
  if (const auto lost = now.counters().find("node_lost"); lost != now.counters().end())
    result.push_back(fmt::format("{} nodes were lost", lost->second));
  for (const auto& ended : now.ended())
    if (ended.reason().find("client is gone") != std::string::npos)
      result.push_back(fmt::format("actor {} has ended: {}", ended.actor().id(), ended.reason()));
  return result;
}

void Cluster::leave() {
  for (const auto& client : clients_) {
    while (!client->leases.empty())
      give_back(*client, client->leases.begin()->first);
    std::vector<std::uint64_t> waiting;
    for (const auto& [number, asked] : client->asked)
      waiting.push_back(number);
    for (const auto number : waiting)
      withdraw(*client, number);
  }
  run_for(10s);
  auto& client = *some_client();
  const auto now = state();
  for (const auto& group : now.groups())
    release_group(client, group.id());
  for (const auto& actor : now.actors())
    kill(client, actor.id());
  run_for(60s);
  for (const auto& known : clients_)
    while (!known->leases.empty())
      give_back(*known, known->leases.begin()->first);
  run_for(60s);
}

std::vector<std::string> Cluster::leftovers() {
  std::vector<std::string> result;
  const auto now = state();
  const auto none = [&](const auto& entries, std::string_view what) {
    for (const auto& entry : entries)
      result.push_back(fmt::format("{}: {}", what, entry.ShortDebugString()));
  };
  none(now.leases(), "lease");
  none(now.actors(), "actor");
  none(now.groups(), "group");
  none(now.queue(), "in the queue");
  for (const auto& device : now.devices())
    if (device.free_units() != 10'000 || device.free_memory_bytes() != device.device().memory_bytes())
      result.push_back("not free: " + device.ShortDebugString());
  for (const auto& quota : now.quotas())
    if (quota.used_units() != 0)
      result.push_back("counted: " + quota.ShortDebugString());
  for (const auto& node : nodes_) {
    if (!node->held.empty())
      result.push_back(fmt::format("node {} holds {} leases", node->offer.name(), node->held.size()));
    for (const auto& [number, process] : node->processes) {
      if (process->generation < node->generation)
        result.push_back(fmt::format("worker {} of {} still runs an earlier program", number, node->offer.name()));
      if (process->owner != 0)
        result.push_back(fmt::format("worker {} for lease {} still runs", number, process->owner));
    }
  }
  for (const auto& client : clients_)
    for (const auto& [number, asked] : client->asked)
      result.push_back(fmt::format("client {} has no answer to {}", client->id, asked->what));
  for (const auto section : {StateSection::actors, StateSection::groups})
    if (const auto kept = store_->load(section); !kept->empty())
      result.push_back(fmt::format("{} of {} are stored", kept->size(), to_string(section)));
  return result;
}

} // namespace simulation
