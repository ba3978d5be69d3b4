#include <broker/simulation_parts.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace simulation {

bool Timeline::step(TimePoint until) {
  if (planned_.empty() || planned_.begin()->first > until) {
    now_ = std::max(now_, until);
    return false;
  }
  auto next = planned_.extract(planned_.begin());
  now_ = std::max(now_, next.key());
  next.mapped()();
  return true;
}

// -- what the core is given -----------------------------------------------------------------------

class Cluster::World : public BrokerWorld {
public:
  World(Cluster& cluster, std::uint64_t number) : cluster_(cluster), number_(number) {
    // nop
  }

  TimePoint now() const override {
    return cluster_.time_.now();
  }

  Duration machine_time() const override {
    return now().time_since_epoch();
  }

  std::int64_t unix_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now().time_since_epoch()).count();
  }

  void post(const ContactPtr& agent, v1::StartRunner order) override {
    cluster_.note("orders runner", order);
    send(agent, [order = std::move(order)](const Link& link) { link.on_runner(order); });
  }

  void post(const ContactPtr& agent, v1::StartActor order, Payload) override {
    cluster_.note("orders actor", order);
    send(agent, [order = std::move(order)](const Link& link) { link.on_actor(order); });
  }

  void post(const ContactPtr& agent, v1::EndLease order) override {
    cluster_.note("orders end", order);
    send(agent, [order = std::move(order)](const Link& link) { link.on_end(order); });
  }

  void post(const ContactPtr& client, v1::ReclaimLease order) override {
    cluster_.note("reclaims", order);
    send(client, [order = std::move(order)](const Link& link) { link.on_reclaim(order); });
  }

  void wake(Duration after, Wake what) override {
    cluster_.time_.at(deadline_after(now(), after), [this, what, number = number_, &cluster = cluster_] {
      if (cluster.broker_number_ != number)
        return;
      cluster.check_quotas();
      cluster.core_->wake(what);
      if (what == Wake::settled) {
        cluster.settling_ = false;
        cluster.check_quotas();
      }
    });
  }

  void watch(const ContactPtr& contact, std::uint64_t peer) override {
    const auto link = link_of(contact);
    auto down = [peer, number = number_, &cluster = cluster_] {
      cluster.time_.at(cluster.time_.now() + cluster.soon(20), [peer, number, &cluster] {
        cluster.note(fmt::format("broker sees that peer {} is gone", peer));
        if (cluster.broker_number_ == number)
          cluster.core_->peer_down(peer);
      });
    };
    if (link->up)
      link->watchers.push_back(std::move(down));
    else
      down();
  }

private:
  static std::shared_ptr<Link> link_of(const ContactPtr& contact) {
    return std::const_pointer_cast<Link>(std::static_pointer_cast<const Link>(contact));
  }

  template <class What>
  void send(const ContactPtr& contact, What what) {
    const auto link = link_of(contact);
    cluster_.from_broker(link, [link, what = std::move(what)] { what(*link); });
  }

  Cluster& cluster_;
  std::uint64_t number_;
};

Cluster::Cluster(std::uint64_t seed, const Faults& faults, Coverage& coverage, std::ostream* trace)
  : trace_(trace), coverage_(coverage), faults_(faults), random_(seed),
    store_(std::make_shared<broker_test::MemoryStore>()) {
  start_broker();
  run_for(10ms);
  for (int number = 0; number < 3; ++number) {
    auto& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.offer.set_name(fmt::format("n{}", number));
    for (int index = 0; index < 2; ++index) {
      auto& device = *node.offer.add_devices();
      device.set_index(index);
      device.set_kind("host");
      device.set_name("device");
      device.set_memory_bytes(8U << 20U);
      device.set_units(1);
    }
    node.agent = ++last_agent_;
    come(node);
  }
  for (int number = 0; number < 3; ++number)
    add_client();
  run_for(1s);
}

Cluster::~Cluster() {
  core_->finish();
}

void Cluster::note(const std::string& what) const {
  if (trace_ != nullptr)
    *trace_ << fmt::format("{:>9.3f} {}\n", to_seconds(time_.now().time_since_epoch()) - 3600, what);
}

void Cluster::note(const std::string& what, const google::protobuf::Message& message) const {
  if (trace_ != nullptr)
    note(fmt::format("{}: {}", what, message.ShortDebugString()));
}

// -- chance ---------------------------------------------------------------------------------------

std::uint64_t Cluster::pick(std::uint64_t below) {
  return random_() % below; // the same with every standard library, unlike its distributions
}

bool Cluster::chance(int percent) {
  return pick(100) < static_cast<std::uint64_t>(percent);
}

Duration Cluster::soon(int most_ms) {
  return std::chrono::microseconds{pick(static_cast<std::uint64_t>(most_ms) * 1000) + 1};
}

// -- connections ----------------------------------------------------------------------------------

std::shared_ptr<Link> Cluster::connect() {
  auto link = std::make_shared<Link>();
  link->broker = broker_number_;
  return link;
}

void Cluster::cut(const std::shared_ptr<Link>& link) {
  if (link == nullptr || !std::exchange(link->up, false))
    return;
  for (const auto& watcher : std::exchange(link->watchers, {}))
    watcher();
}

void Cluster::to_broker(const std::shared_ptr<Link>& link, std::function<void(BrokerCore&)> what) {
  if (link == nullptr || !link->up)
    return;
  link->last_to_broker = std::max(link->last_to_broker, time_.now() + soon(5));
  time_.at(link->last_to_broker, [this, link, what = std::move(what)] {
    if (!link->up || link->broker != broker_number_)
      return;
    what(*core_);
    constexpr int often_enough = 4;
    if (++looks_ % often_enough == 0)
      check_quotas();
  });
}

void Cluster::from_broker(const std::shared_ptr<Link>& link, std::function<void()> what) {
  if (link == nullptr || !link->up)
    return;
  link->last_from_broker = std::max(link->last_from_broker, time_.now() + soon(5));
  time_.at(link->last_from_broker, [link, what = std::move(what)] {
    if (link->up)
      what();
  });
}

// -- the broker -----------------------------------------------------------------------------------

void Cluster::start_broker() {
  ++broker_number_;
  BrokerOptions options;
  options.store = store_;
  options.heartbeat = 1s;
  options.link_timeout = link_timeout;
  options.settle = broker_number_ == 1 ? 1ms : 2s;
  options.last_id = broker_number_ << 32U;
  const auto ids = store_->load(StateSection::ids);
  for (const auto& entry : *ids)
    options.last_id = std::max<std::uint64_t>(options.last_id, std::stoull(entry.value));
  world_ = std::make_unique<World>(*this, broker_number_);
  last_event_ = 0;
  settling_ = true;
  core_ = std::make_unique<BrokerCore>(*world_, std::move(options));
  core_->start();
}

void Cluster::lose_broker() {
  ++coverage_["broker lost"];
  note("broker lost");
  check_quotas();
  core_.reset();
  ++broker_number_; // nobody is there until it is started again
  store_->lose_pending();
  for (auto& node : nodes_)
    cut(node->link);
  for (auto& client : clients_)
    cut(client->link);
  start_broker();
  // Where nothing else is lost, all nodes are back before a broker goes on without them.
  for (auto& node : nodes_)
    time_.at(time_.now() + soon(faults_.lost_connections > 0 ? 3'000 : 1'500), [this, &node = *node] { come(node); });
  for (auto& client : clients_)
    time_.at(time_.now() + soon(3000), [this, &client = *client] { greet(client); });
}

// -- nodes ----------------------------------------------------------------------------------------

void Cluster::come(Node& node) {
  if (node.link != nullptr && node.link->up && node.link->broker == broker_number_)
    return;
  node.link = connect();
  node.registered = false;
  node.link->on_runner = [this, &node](const v1::StartRunner& order) {
    v1::HeldLease held;
    *held.mutable_lease() = order.lease();
    held.set_client(order.client());
    held.set_client_request(order.client_request());
    start(node, held);
  };
  node.link->on_actor = [this, &node](const v1::StartActor& order) {
    v1::HeldLease held;
    *held.mutable_lease() = order.lease();
    held.set_client(order.client());
    held.set_client_request(order.client_request());
    *held.mutable_actor() = order;
    held.mutable_actor()->clear_lease();
    start(node, held);
  };
  node.link->on_end = [this, &node](const v1::EndLease& order) {
    if (node.held.count(order.lease()) == 0)
      return end(node, order.lease(), order.epoch(), false);
    time_.at(time_.now() + soon(50), [this, &node, lease = order.lease(), epoch = order.epoch()] {
      if (node.held.count(lease) > 0)
        end(node, lease, epoch, false);
    });
  };
  v1::RegisterNode message;
  *message.mutable_node() = node.offer;
  message.set_agent(node.agent);
  message.set_registration(++node.registration);
  for (const auto& [id, held] : node.held)
    *message.add_held() = held;
  for (const auto& own : node.own_ends)
    *message.add_own_ends() = own;
  const auto link = node.link;
  note("node comes", message);
  to_broker(link, [this, link, &node, message](BrokerCore& core) {
    note("node arrives", message);
    core.add_node(message, link, BrokerAnswer<void>{[this, link, &node](const Result<void>& result) {
                    from_broker(link, [this, &node, link, ok = result.has_value()] {
                      if (ok) {
                        node.registered = true;
                        return;
                      }
                      cut(link);
                      time_.at(time_.now() + 100ms, [this, &node] { come(node); });
                    });
                  }});
  });
}

void Cluster::start(Node& node, const v1::HeldLease& held) {
  const auto id = held.lease().id();
  if (node.held.count(id) > 0)
    return;
  if (!seen_.insert(id).second)
    violations_.push_back(fmt::format("lease {} was started twice", id));
  note(fmt::format("node {} starts {}", node.offer.name(), id));
  const auto& actor = held.actor();
  if (actor.spec().max_restarts() >= 0 && actor.restarts() - actor.forgiven() > actor.spec().max_restarts())
    violations_.push_back(fmt::format("actor {} is started again too often", actor.actor()));
  // Where a connection was lost, one life may not know of the other yet.
  const bool told = faults_.lost_connections == 0 && faults_.lost_brokers == 0 && faults_.standstills == 0;
  for (const auto& other : nodes_)
    for (const auto& [lease, there] : other->held)
      if (told && held.has_actor() && there.actor().actor() == actor.actor())
        violations_.push_back(fmt::format("actor {} is started beside its life under lease {}", actor.actor(), lease));
  // A node tells it to each broker that it comes to, and each waits for all nodes.
  const bool repeated = faults_.lost_connections + faults_.lost_nodes + faults_.standstills == 0;
  for (const auto& other : nodes_)
    for (const auto& own : other->own_ends)
      if ((told || repeated) && held.has_actor() && own.actor() == actor.actor())
        violations_.push_back(fmt::format("actor {} is started after it has ended itself", actor.actor()));
  node.held[id] = held;
  check_room(node);
  time_.at(time_.now() + soon(30), [this, &node, id, agent = node.agent] {
    if (node.agent != agent || node.held.count(id) == 0)
      return;
    if (!calm_ && faults_.lost_holders > 0 && chance(5))
      end(node, id, node.held.at(id).lease().epoch(), true);
    else
      started(node, id);
  });
}

void Cluster::started(Node& node, std::uint64_t lease) {
  auto& held = node.held.at(lease);
  v1::LeaseStarted message;
  message.set_lease(lease);
  message.set_epoch(held.lease().epoch());
  *held.mutable_started() = message;
  to_broker(node.link, [message](BrokerCore& core) { core.lease_started(message, nullptr, nullptr); });
}

void Cluster::end(Node& node, std::uint64_t lease, std::uint64_t epoch, bool crashed) {
  note(fmt::format("node {} ends {}{}", node.offer.name(), lease, crashed ? ", crashed" : ""));
  node.held.erase(lease);
  // Its client finds nobody there any more.
  for (auto& client : clients_)
    client->leases.erase(lease);
  v1::LeaseEnded message;
  message.set_lease(lease);
  message.set_epoch(epoch);
  if (crashed) {
    ++coverage_["holder lost"];
    message.set_error(static_cast<std::uint32_t>(Errc::worker_died));
  }
  to_broker(node.link, [message](BrokerCore& core) { core.lease_ended(message); });
}

void Cluster::end_itself(Node& node, std::uint64_t lease) {
  const auto held = node.held.extract(lease);
  note(fmt::format("actor {} ends itself under lease {}", held.mapped().actor().actor(), lease));
  ++coverage_["own end"];
  v1::OwnEnd own;
  own.set_actor(held.mapped().actor().actor());
  own.mutable_end()->set_lease(lease);
  own.mutable_end()->set_epoch(held.mapped().lease().epoch());
  own.mutable_end()->set_error(static_cast<std::uint32_t>(Errc::actor_died));
  own.mutable_end()->set_by_itself(true);
  node.own_ends.push_back(own);
  to_broker(node.link, [own](BrokerCore& core) { core.lease_ended(own.end()); });
}

void Cluster::check_room(const Node& node) {
  for (const auto& device : node.offer.devices()) {
    std::int64_t units = 0;
    std::uint64_t memory = 0;
    for (const auto& [id, held] : node.held)
      for (const auto& grant : held.lease().devices())
        if (grant.index() == device.index() && held.lease().parent() == 0) {
          units += grant.share_units();
          memory += grant.memory_bytes();
        }
    if (units > 10'000 || memory > device.memory_bytes())
      violations_.push_back(
          fmt::format("device {} of {} holds {} units and {} bytes", device.index(), node.offer.name(), units, memory));
  }
}

// Nobody gets above a quota, or further above a lowered one, but by what was granted before and has come back.
void Cluster::check_quotas() {
  if (faults_.quotas == 0 || settling_)
    return;
  v1::GetState message;
  message.set_events_from(last_event_ + 1);
  const auto now = core_->state(message);
  bool adopted = false;
  for (const auto& event : now.events()) {
    last_event_ = event.sequence();
    // Where nothing else is lost, all of it is back before the broker grants anything within quotas.
    adopted = adopted || (event.kind() == "adopted" && faults_.lost_connections + faults_.lost_nodes > 0);
  }
  std::map<std::string, std::int64_t> counted;
  for (const auto& lease : now.leases())
    for (const auto& device : lease.devices())
      counted[lease.quota_owner()] += lease.parent() == 0 && lease.group() == 0 ? device.share_units() : 0;
  for (const auto& group : now.groups())
    for (const auto& bundle : group.bundles())
      for (const auto& device : bundle.devices())
        counted[group.owner()] += device.share_units();
  auto before = std::exchange(held_units_, {});
  for (const auto& quota : now.quotas()) {
    const auto used = quota.used_units();
    held_units_[quota.owner()] = used;
    // Leases that have ended, and lend parts, are held and not shown.
    if (counted[quota.owner()] > used)
      violations_.push_back(fmt::format("{} holds {}, and {} count", quota.owner(), counted[quota.owner()], used));
    counted.erase(quota.owner());
    if (!quota.has_gpu_units())
      continue;
    coverage_["at the quota"] += used > 0 && used == quota.gpu_units() ? 1 : 0;
    const bool more = used > before[quota.owner()];
    if (used > quota.gpu_units() && !adopted && more)
      violations_.push_back(fmt::format("{} holds {} of {}, and {} before", quota.owner(), used, quota.gpu_units(),
                                        before[quota.owner()]));
  }
  for (const auto& [owner, units] : counted)
    if (!owner.empty() && units > 0)
      violations_.push_back(fmt::format("{} holds {}, which do not count", owner, units));
  for (const auto& waiting : now.queue())
    coverage_["waits for a quota"] += waiting.reason().find("the quota of") != std::string::npos ? 1 : 0;
}

void Cluster::restart(Node& node) {
  note("node lost: " + node.offer.name());
  cut(node.link);
  for (const auto& [lease, held] : std::exchange(node.held, {}))
    for (auto& client : clients_)
      client->leases.erase(lease);
  node.own_ends.clear();
  for (auto& device : *node.offer.mutable_devices())
    device.clear_fault();
  node.agent = ++last_agent_;
  node.registration = 0;
  time_.at(time_.now() + soon(2000), [this, &node] { come(node); });
}

// -- clients --------------------------------------------------------------------------------------

void Cluster::greet(Client& client) {
  if (client.gone)
    return;
  if (client.link != nullptr && client.link->up && client.link->broker == broker_number_)
    return;
  client.link = connect();
  client.greeted = false;
  client.link->on_reclaim = [this, &client](const v1::ReclaimLease& order) {
    // After the task that runs.
    time_.at(time_.now() + soon(100), [this, &client, lease = order.lease()] { give_back(client, lease); });
  };
  v1::Hello message;
  message.set_client(client.id);
  // Some are their connection.
  message.set_reconnect_grace_ms(client.id % 3 == 0 ? 0 : 5'000);
  for (const auto& [lease, epoch] : client.leases)
    message.add_leases(lease);
  const auto link = client.link;
  to_broker(link, [this, link, &client, message](BrokerCore& core) {
    note("hello", message);
    if (const auto done = core.hello(message, client.caller, link); !done)
      violations_.push_back("a client is refused: " + done.error().message());
    from_broker(link, [this, &client] {
      client.greeted = true;
      for (const auto& [number, asked] : client.asked)
        ask(client, number);
    });
  });
}

void Cluster::begin(Client& client, std::string what, std::function<void(BrokerCore&, const Asked&)> send) {
  auto asked = std::make_shared<Asked>();
  asked->what = std::move(what);
  asked->send = std::move(send);
  asked->number = ++client.last_number;
  client.asked[asked->number] = asked;
  ask(client, asked->number);
}

void Cluster::ask(Client& client, std::uint64_t number) {
  if (!client.greeted)
    return; // it will be asked when the broker knows the client
  const auto& asked = client.asked.at(number);
  const auto link = client.link;
  to_broker(link, [asked, link](BrokerCore& core) {
    asked->link = link;
    asked->send(core, *asked);
    asked->again = true;
  });
}

void Cluster::answered(Client& client, std::uint64_t number, const Error* error) {
  const auto asked = client.asked.extract(number);
  if (asked.empty()) {
    violations_.push_back("a request is answered twice");
    return;
  }
  ++coverage_[fmt::format("{}: {}", asked.mapped()->what, error != nullptr ? to_string(error->code()) : "done")];
}

} // namespace simulation
