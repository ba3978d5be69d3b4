#include <fmt/format.h>
#include <sim/parts.hpp>

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
    cluster_.note_lender(order.lease());
    send(agent, [order = std::move(order)](const Link& link) { link.on_runner(order); });
  }

  void post(const ContactPtr& agent, v1::StartActor order, Payload) override {
    cluster_.note("orders actor", order);
    cluster_.note_lender(order.lease());
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
      device.set_uuid(fmt::format("GPU-{}-{}", number, index));
    }
    (*node.offer.mutable_resource_units())["neuron_cores"] = 40'000;
    start_agent(node);
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
  // Of what had begun only now, the store may not know yet.
  std::erase_if(lasting_, [this](const auto& item) { return time_.now() - item.second.begun < 1s; });
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

// -- what must never be ---------------------------------------------------------------------------

// An actor has one life at a time, none after its end, and not more than it may.
void Cluster::check_life(const v1::HeldLease& held) {
  const auto& actor = held.actor();
  if (actor.spec().max_restarts() >= 0 && actor.restarts() - actor.forgiven() > actor.spec().max_restarts())
    violations_.push_back(fmt::format("actor {} is started again too often", actor.actor()));
  // Where a connection was lost, one life may not know of the other yet.
  const bool told = faults_.lost_connections == 0 && faults_.lost_brokers == 0 && faults_.standstills == 0;
  for (const auto& other : nodes_)
    for (const auto& [lease, there] : other->held)
      if (told && there.has_actor() && there.actor().actor() == actor.actor())
        violations_.push_back(fmt::format("actor {} is started beside its life under lease {}", actor.actor(), lease));
  // A node tells it to each broker that it comes to, and each waits for all nodes.
  const bool repeated = faults_.lost_connections + faults_.lost_nodes + faults_.standstills == 0;
  for (const auto& other : nodes_)
    for (const auto& own : other->own_ends)
      if ((told || repeated) && own.actor() == actor.actor())
        violations_.push_back(fmt::format("actor {} is started after it has ended itself", actor.actor()));
  // What an agent knows survives unless the agent does not, or a connection is lost that nobody sees yet.
  const auto saved = saved_.find(actor.actor());
  const bool kept = told && !restarted_;
  if (kept && saved != saved_.end() && actor.saved() != saved->second)
    violations_.push_back(
        fmt::format("actor {} gets state {}, and has saved {}", actor.actor(), actor.saved(), saved->second));
  coverage_["state found again"] += actor.saved().empty() ? 0 : 1;
}

void Cluster::note_lender(const v1::Lease& lease) {
  if (lease.parent() != 0)
    lenders_[lease.id()] = lease.parent();
}

bool Cluster::borrows_from(std::uint64_t borrower, std::uint64_t lender) const {
  for (auto it = lenders_.find(borrower); it != lenders_.end(); it = lenders_.find(it->second))
    if (it->second == lender)
      return true;
  return false;
}

bool Cluster::has_lender(const Node& node, std::uint64_t borrower) const {
  return std::any_of(node.held.begin(), node.held.end(),
                     [&](const auto& held) { return borrows_from(borrower, held.first); });
}

void Cluster::check_room(const Node& node) {
  for (const auto& device : node.offer.devices()) {
    std::int64_t units = 0;
    std::uint64_t memory = 0;
    for (const auto& [id, held] : node.held)
      for (const auto& grant : held.lease().devices())
        if (grant.index() == device.index() && !has_lender(node, id)) {
          units += grant.share_units();
          memory += grant.memory_bytes();
        }
    if (units > 10'000 || memory > device.memory_bytes())
      violations_.push_back(
          fmt::format("device {} of {} holds {} units and {} bytes", device.index(), node.offer.name(), units, memory));
  }
  // A unit of an accelerator is of one lease, and of those that borrow from it.
  std::map<int, std::vector<const v1::Lease*>> by_unit;
  for (const auto& [id, held] : node.held)
    for (const auto& [name, units] : held.lease().units())
      for (const auto unit : units.ids())
        by_unit[unit].push_back(&held.lease());
  for (const auto& [unit, leases] : by_unit)
    for (const auto* one : leases)
      for (const auto* other : leases)
        if (one->id() < other->id() && !borrows_from(other->id(), one->id()))
          violations_.push_back(fmt::format("leases {} and {} both have unit {}", one->id(), other->id(), unit));
}

void Cluster::check_type(const Process& process, const v1::HeldLease& held) {
  if (!process.types)
    return;
  // Clients name their requests for tasks by the type.
  const auto& type = held.has_actor() ? held.actor().spec().type() : held.lease().name();
  const auto has = [&](const auto& types) {
    return std::any_of(types.begin(), types.end(), [&](const auto& known) { return known.name() == type; });
  };
  if (held.has_actor() ? !has(process.types->actors()) : !has(process.types->tasks()))
    violations_.push_back(fmt::format("lease {} is for type {}, which the program of worker {} of {} does not have",
                                      held.lease().id(), type, process.number, process.node.offer.name()));
  ++coverage_["started on a node with its type"];
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
    // Too late: what it has is given up.
    if (!settling_)
      std::erase_if(lasting_, [&client](const auto& item) { return item.first.first == client.id; });
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
  if (error != nullptr && error->message().find("does not have the type") != std::string::npos)
    ++coverage_["a bundle without its type"];
  ++coverage_[fmt::format("{}: {}", asked.mapped()->what, error != nullptr ? to_string(error->code()) : "done")];
}

} // namespace simulation
