// Nodes of a simulated cluster: the agent's real core, and what it is given.
#include <fmt/format.h>
#include <sim/parts.hpp>

#include <algorithm>

namespace simulation {

// -- what an agent's core is given ----------------------------------------------------------------

class Cluster::AgentSide : public AgentWorld {
public:
  AgentSide(Cluster& cluster, Node& node) : cluster_(cluster), node_(node), number_(node.agent) {
    // nop
  }

  TimePoint now() const override {
    return cluster_.time_.now();
  }

  std::int64_t unix_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now().time_since_epoch()).count();
  }

  void wake(Duration after, AgentWake what, std::uint64_t about) override {
    cluster_.at_agent(node_, after, [what, about](AgentCore& core) { core.wake(what, about); });
  }

  void post(const ContactPtr& broker, v1::HeldAhead message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.held_ahead(told); });
  }

  void post(const ContactPtr& broker, v1::LeaseStarted message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.lease_started(told); });
  }

  void post(const ContactPtr& broker, v1::LeaseEnded message) override {
    cluster_.note(fmt::format("node {} reports an end", node_.offer.name()), message);
    if (message.error() != 0)
      ++cluster_.coverage_[fmt::format("lease ended: {}",
                                       to_string(errc_from_number(static_cast<std::uint8_t>(message.error()))))];
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.lease_ended(told); });
  }

  void post(const ContactPtr& broker, v1::ActorSaved message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.saved(told); });
  }

  void post(const ContactPtr& broker, v1::HolderUsage message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.used(told); });
  }

  void post(const ContactPtr& broker, v1::DeviceFault message) override {
    cluster_.note("device out of use", message);
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.devices_failed(told); });
  }

  void post(const ContactPtr& broker, v1::DeviceUse message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.devices_used(told); });
  }

  void post(const ContactPtr& broker, v1::NodePrograms message) override {
    tell(broker, std::move(message), [](BrokerCore& core, const auto& told) { core.programs_changed(told); });
  }

  void ask(const ContactPtr& broker, v1::RegisterNode message, BrokerReply reply) override {
    cluster_.note("node comes", message);
    ask_for(broker, std::move(reply), [message = std::move(message), broker](BrokerCore& core, auto answer) {
      core.add_node(message, broker, BrokerAnswer<void>{answer});
    });
  }

  void ask(const ContactPtr& broker, v1::DrainNode message, BrokerReply reply) override {
    cluster_.note("node leaves", message);
    ask_for(broker, std::move(reply),
            [message = std::move(message)](BrokerCore& core, auto answer) { answer(core.drain(message)); });
  }

  void ask(const ContactPtr& broker, v1::Goodbye message, BrokerReply reply) override {
    cluster_.note("goodbye", message);
    ask_for(broker, std::move(reply), [message = std::move(message)](BrokerCore& core, auto answer) {
      core.goodbye(message);
      answer(Result<void>{});
    });
  }

  Result<void> start(const WorkerCommand& command, const v1::HeldLease* owner) override {
    if (cluster_.faults_.lost_workers > 0 && !cluster_.calm_ && cluster_.chance(2)) {
      ++cluster_.coverage_["worker not started"];
      return fail(Errc::unavailable, "there is no room for another process");
    }
    cluster_.start_process(node_, command, owner != nullptr ? owner->lease().id() : 0);
    return {};
  }

  void kill(std::uint64_t worker) override {
    if (const auto process = cluster_.process_of(node_, worker); process != nullptr)
      cluster_.time_.at(now() + cluster_.soon(20), [&cluster = cluster_, process] { cluster.exit(process); });
  }

  void watch(const ContactPtr& contact, std::uint64_t) override {
    process_of(contact)->watched = true;
  }

  void order(const ContactPtr& worker, const v1::StartRunner& order) override {
    v1::HeldLease held;
    *held.mutable_lease() = order.lease();
    held.set_client(order.client());
    held.set_client_request(order.client_request());
    send(worker, [held](Cluster& cluster, const auto& process) { cluster.hold(process, held); });
  }

  void order(const ContactPtr& worker, const v1::StartActor& order, const Payload&) override {
    v1::HeldLease held;
    *held.mutable_lease() = order.lease();
    held.set_client(order.client());
    held.set_client_request(order.client_request());
    *held.mutable_actor() = order;
    held.mutable_actor()->clear_lease();
    send(worker, [held](Cluster& cluster, const auto& process) { cluster.hold(process, held); });
  }

  void order(const ContactPtr& worker, const v1::EndLease& order) override {
    send(worker, [order](Cluster& cluster, const auto& process) { cluster.asked_to_end(process, order); });
  }

  void order(const ContactPtr& worker, const v1::DeviceFault& order) override {
    send(worker, [order](Cluster& cluster, const auto& process) { cluster.revoke(process, order); });
  }

  void order(const ContactPtr& worker, const v1::EndProcess& order) override {
    send(worker, [order](Cluster& cluster, const auto& process) { cluster.give_up(process, order); });
  }

  void look_at_memory(MemoryQuery query) override {
    cluster_.at_agent(node_, cluster_.soon(5),
                      [look = cluster_.memory_of(query)](AgentCore& core) { core.memory_seen(look); });
  }

  bool mps_runs() const override {
    return false;
  }

  void holder_begins(std::uint64_t worker, const v1::HeldLease& held, std::int64_t) override {
    log_[held.lease().id()] = worker;
  }

  void holder_ended(std::uint64_t, std::uint64_t lease) override {
    if (log_.erase(lease) == 0)
      cluster_.violations_.push_back(fmt::format("the log hears of the end of lease {}, which has not begun", lease));
  }

  void worker_ended(std::uint64_t worker) override {
    if (const auto process = cluster_.process_of(node_, worker); process != nullptr)
      cluster_.violations_.push_back(fmt::format("worker {} counts as ended, and runs", worker));
    std::erase_if(log_, [worker](const auto& line) { return line.second == worker; });
  }

  std::string address() const override {
    return "a:1";
  }

  void notice(std::string text) override {
    cluster_.note(fmt::format("node {} says: {}", node_.offer.name(), text));
    // An operator reads it, and restarts the node, which finds its devices well.
    if (text.find("it is out of use until the node is started again") != std::string::npos)
      cluster_.at_agent(node_, cluster_.soon(4'000),
                        [&cluster = cluster_, &node = node_](AgentCore&) { cluster.restart(node); });
  }

  void registered() override {
    node_.registered = true;
  }

  void unregistered() override {
    // `registered` says that it was once.
  }

  void emptied() override {
    if (!node_.held.empty())
      cluster_.violations_.push_back(fmt::format("node {} counts as empty, and is not", node_.offer.name()));
    cluster_.say_goodbye(node_);
  }

  void look_elsewhere(const Error& why) override {
    cluster_.violations_.push_back(fmt::format("node {} was sent away: {}", node_.offer.name(), why.message()));
  }

  void parted() override {
    cluster_.at_agent(node_, cluster_.soon(5),
                      [&cluster = cluster_, &node = node_](AgentCore&) { cluster.restart(node); });
  }

  /// Leases whose lines the log knows.
  [[nodiscard]] std::set<std::uint64_t> log() const {
    std::set<std::uint64_t> leases;
    for (const auto& [lease, worker] : log_)
      leases.insert(lease);
    return leases;
  }

private:
  static std::shared_ptr<Link> link_of(const ContactPtr& contact) {
    return std::const_pointer_cast<Link>(std::static_pointer_cast<const Link>(contact));
  }

  static std::shared_ptr<Process> process_of(const ContactPtr& contact) {
    return std::const_pointer_cast<Process>(std::static_pointer_cast<const Process>(contact));
  }

  template <class Message, class What>
  void tell(const ContactPtr& broker, Message message, What what) {
    cluster_.to_broker(link_of(broker),
                       [message = std::move(message), what](BrokerCore& core) { what(core, message); });
  }

  /// `run` hands the request to the broker, with a function for the answer.
  template <class Run>
  void ask_for(const ContactPtr& broker, BrokerReply reply, Run run) {
    const auto link = link_of(broker);
    const auto answered = std::make_shared<bool>(false);
    auto once = [&cluster = cluster_, &node = node_, number = number_, answered,
                 reply = std::move(reply)](const std::optional<Result<void>>& answer) {
      if (!std::exchange(*answered, true) && node.agent == number)
        cluster.at_agent(node, {}, [reply, answer](AgentCore&) { reply(answer); });
    };
    if (!link->up)
      return once(std::nullopt);
    link->watchers.push_back([&cluster = cluster_, once] {
      cluster.time_.at(cluster.time_.now() + cluster.soon(20), [once] { once(std::nullopt); });
    });
    cluster_.to_broker(link, [&cluster = cluster_, link, once, run = std::move(run)](BrokerCore& core) {
      run(core, [&cluster, link, once](Result<void> result) {
        cluster.from_broker(link, [once, result = std::move(result)] { once(result); });
      });
    });
  }

  template <class What>
  void send(const ContactPtr& worker, What what) {
    const auto process = process_of(worker);
    cluster_.to_worker(process, [&cluster = cluster_, process, what = std::move(what)] { what(cluster, process); });
  }

  Cluster& cluster_;
  Node& node_;
  const std::uint64_t number_;
  /// The workers in which leases run, as the log knows.
  std::map<std::uint64_t, std::uint64_t> log_;
};

std::vector<std::string> Cluster::disagreements_of(const Node& node) {
  std::vector<std::string> result;
  std::set<std::uint64_t> of_agent;
  for (const auto lease : node.core->held())
    of_agent.insert(lease.value());
  if (of_agent != node.world->log())
    result.push_back(fmt::format("the log of {} knows other leases than its agent", node.offer.name()));
  for (const auto& [lease, held] : node.held)
    if (of_agent.erase(lease) == 0)
      result.push_back(fmt::format("lease {} runs on {}, whose agent does not know it", lease, node.offer.name()));
  for (const auto lease : of_agent)
    result.push_back(fmt::format("the agent of {} knows lease {}, which does not run", node.offer.name(), lease));
  return result;
}

Cluster::Node::Node() = default;
Cluster::Node::~Node() = default;

// -- agents ---------------------------------------------------------------------------------------

namespace {

ProgramTable table_of(const std::vector<std::optional<v1::TypeCatalog>>& programs) {
  std::vector<WorkerProgram> result;
  for (const auto& types : programs)
    result.push_back({0, fmt::format("p{}", result.size()), types});
  return std::move(*ProgramTable::make(std::move(result)));
}

} // namespace

void Cluster::start_agent(Node& node) {
  node.core.reset();
  node.agent = ++last_agent_;
  node.registered = false;
  node.says_goodbye = false;
  node.world = std::make_unique<AgentSide>(*this, node);
  node.generation = 0;
  if (faults_.mixed_types)
    choose_programs(node);
  AgentOptions options;
  options.node = node.offer;
  options.programs = table_of(node.programs);
  options.id = node.agent;
  options.host = "h";
  options.heartbeat = 1s;
  options.link_timeout = link_timeout;
  if (faults_.full_memory > 0)
    options.memory_threshold = limits::memory_threshold;
  node.core = std::make_unique<AgentCore>(*node.world, std::move(options));
}

void Cluster::choose_programs(Node& node) {
  node.programs.assign(chance(40) ? 2 : 1, std::nullopt);
  for (auto& types : node.programs) {
    if (chance(10))
      continue;
    types.emplace();
    // The last type is nowhere but on those that do not say what they have.
    for (const auto* type : {"T", "U", "V"})
      if (chance(60)) {
        types->add_tasks()->set_name(type);
        types->add_actors()->set_name(type);
      }
  }
}

void Cluster::renew_programs(Node& node) {
  at_agent(node, {}, [this, &node](AgentCore& core) {
    ++coverage_["programs changed"];
    ++node.generation;
    choose_programs(node);
    std::set<std::string> seen;
    for (const auto& device : node.offer.devices())
      seen.insert(device.uuid());
    core.programs_changed(table_of(node.programs), seen);
  });
}

void Cluster::at_agent(Node& node, Duration after, std::function<void(AgentCore&)> what) {
  time_.at(time_.now() + after, [&node, agent = node.agent, what = std::move(what)] {
    if (node.agent == agent)
      what(*node.core);
  });
}

void Cluster::come(Node& node) {
  if (node.core == nullptr || (node.link != nullptr && node.link->up && node.link->broker == broker_number_))
    return;
  node.registered = false;
  if (node.link != nullptr)
    node.core->broker_changed(nullptr);
  node.link = connect();
  node.link->on_runner = [&node](const v1::StartRunner& order) { node.core->start(order); };
  node.link->on_actor = [&node](const v1::StartActor& order) { node.core->start(order, {}); };
  node.link->on_end = [&node](const v1::EndLease& order) { node.core->end(order); };
  node.link->watchers.push_back([this, &node, link = std::weak_ptr{node.link}] {
    at_agent(node, soon(500), [&node, link](AgentCore& core) {
      if (node.link == link.lock())
        core.broker_changed(nullptr);
    });
  });
  node.core->broker_changed(node.link);
}

void Cluster::say_goodbye(Node& node) {
  if (!std::exchange(node.says_goodbye, true))
    at_agent(node, {}, [](AgentCore& core) { core.say_goodbye(); });
}

void Cluster::restart(Node& node) {
  note("node lost: " + node.offer.name());
  restarted_ = true;
  cut(node.link);
  node.link = nullptr;
  for (const auto& [number, process] : std::exchange(node.processes, {})) {
    process->alive = false;
    process->running.clear();
  }
  for (const auto& [lease, held] : std::exchange(node.held, {}))
    for (auto& client : clients_)
      client->leases.erase(lease);
  node.own_ends.clear();
  start_agent(node);
  time_.at(time_.now() + soon(2000), [this, &node, agent = node.agent] {
    if (node.agent == agent)
      come(node);
  });
}

} // namespace simulation
