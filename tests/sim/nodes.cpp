// Nodes of a simulated cluster: the agent's real core, and worker processes that are played.
#include <gpuactors/wire/lease_end.hpp>

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
    tell(broker, std::move(message),
         [](BrokerCore& core, const auto& told) { core.lease_started(told, nullptr, nullptr); });
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

  void emptied() override {
    if (!node_.held.empty())
      cluster_.violations_.push_back(fmt::format("node {} counts as empty, and is not", node_.offer.name()));
    cluster_.say_goodbye(node_);
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
    core.programs_changed(table_of(node.programs));
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

// -- worker processes -----------------------------------------------------------------------------

std::shared_ptr<Cluster::Process> Cluster::process_of(Node& node, std::uint64_t number) {
  const auto known = node.processes.find(number);
  return known != node.processes.end() ? known->second : nullptr;
}

void Cluster::start_process(Node& node, const WorkerCommand& command, std::uint64_t owner) {
  auto process = std::make_shared<Process>(node);
  process->number = command.number;
  process->owner = owner;
  process->types = node.programs.at(command.program);
  process->generation = node.generation;
  node.processes[command.number] = process;
  // Some never come up, or die before.
  if (faults_.lost_workers > 0 && !calm_ && chance(3)) {
    ++coverage_["worker did not come up"];
    if (chance(50))
      time_.at(time_.now() + soon(30), [this, process] { exit(process); });
    return;
  }
  v1::WorkerHello hello;
  hello.set_worker(command.number);
  hello.set_pid(1);
  hello.set_port(2);
  time_.at(time_.now() + soon(40), [this, process, hello] {
    to_agent(process, [this, process, hello](AgentCore& core) {
      if (!core.worker_up(hello, process))
        exit(process); // it ends when nobody waits for it
    });
  });
}

void Cluster::to_worker(const std::shared_ptr<Process>& process, std::function<void()> what) {
  process->last_to_worker = std::max(process->last_to_worker, time_.now() + soon(5));
  time_.at(process->last_to_worker, [process, what = std::move(what)] {
    if (process->alive)
      what();
  });
}

void Cluster::to_agent(const std::shared_ptr<Process>& process, std::function<void(AgentCore&)> what) {
  if (!process->alive)
    return;
  process->last_to_agent = std::max(process->last_to_agent, time_.now() + soon(5));
  // What a process has sent before it died may still arrive, even after the agent knows of its end.
  at_agent(process->node, process->last_to_agent - time_.now(), [process, what = std::move(what)](AgentCore& core) {
    if (!process->connection_lost)
      what(core);
  });
}

void Cluster::exit(std::shared_ptr<Process> process) { // NOLINT(*-unnecessary-value-param): of the map
  if (!std::exchange(process->alive, false))
    return;
  auto& node = process->node;
  note(fmt::format("worker {} of {} ends", process->number, node.offer.name()));
  for (const auto lease : std::exchange(process->leases, {})) {
    node.held.erase(lease);
    unclaim(lease);
  }
  process->running.clear();
  node.processes.erase(process->number);
  // What it has said comes before the end of its connection, unless that was cut.
  const auto said = std::max(process->last_to_agent, time_.now()) - time_.now();
  const bool in_order = chance(80);
  const auto lost_in = in_order ? said + soon(5) : soon(20);
  if (in_order && process->watched)
    for (const auto& own : process->told)
      node.own_ends.push_back(own);
  at_agent(node, lost_in, [process](AgentCore& core) {
    process->connection_lost = true;
    if (process->watched)
      core.worker_lost(process->number);
  });
  at_agent(node, soon(20), [process](AgentCore& core) { core.worker_exited(process->number, "was killed"); });
}

void Cluster::unclaim(std::uint64_t lease) {
  for (auto& client : clients_)
    client->leases.erase(lease);
}

// -- what runs in workers -------------------------------------------------------------------------

void Cluster::hold(const std::shared_ptr<Process>& process, const v1::HeldLease& held) {
  auto& node = process->node;
  const auto id = held.lease().id();
  if (!seen_.insert(id).second)
    violations_.push_back(fmt::format("lease {} was started twice", id));
  note(fmt::format("node {} starts {}", node.offer.name(), id));
  if (held.has_actor())
    check_life(held);
  node.held[id] = held;
  process->leases.insert(id);
  process->running.insert(id);
  check_room(node);
  check_type(*process, held);
  time_.at(time_.now() + soon(30), [this, process, id] {
    if (process->running.count(id) == 0)
      return;
    if (!calm_ && faults_.lost_holders > 0 && chance(5))
      end(process, id, Error{chance(50) ? Errc::worker_died : Errc::task_failed, "it did not begin"});
    else
      begun(process, id);
  });
}

void Cluster::begun(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto& held = process->node.held.at(lease);
  v1::LeaseStarted message;
  message.set_lease(lease);
  message.set_epoch(held.lease().epoch());
  *held.mutable_started() = message;
  to_agent(process, [message](AgentCore& core) { core.started(message); });
  if (held.has_actor())
    for (int saves = 0; saves < 3; ++saves)
      time_.at(time_.now() + soon(700), [this, process, lease] { save(process, lease); });
}

void Cluster::save(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  if (process->running.count(lease) == 0)
    return;
  const auto& held = process->node.held.at(lease);
  v1::ActorSaved message;
  message.set_lease(lease);
  message.set_epoch(held.lease().epoch());
  message.set_type("S");
  message.set_data(std::to_string(++last_save_));
  to_agent(process, [this, message, lease, actor = held.actor().actor()](AgentCore& core) {
    core.saved(message);
    const auto known = core.held();
    if (std::find(known.begin(), known.end(), LeaseId{lease}) != known.end())
      saved_[actor] = message.data();
  });
}

/// What runs under a lease has ended. Its memory is free, unless the process was started for it and goes with it.
v1::HeldLease Cluster::stop_running(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto held = process->node.held.at(lease);
  process->running.erase(lease);
  unclaim(lease);
  if (process->owner != lease) {
    process->leases.erase(lease);
    process->node.held.erase(lease);
  }
  return held;
}

void Cluster::end(const std::shared_ptr<Process>& process, std::uint64_t lease, const std::optional<Error>& error) {
  note(fmt::format("holder of {} on {} ends{}", lease, process->node.offer.name(),
                   error ? ": " + error->message() : ""));
  if (error)
    ++coverage_["holder lost"];
  const auto epoch = stop_running(process, lease).lease().epoch();
  auto message = error ? lease_end(lease, epoch, *error) : lease_end(lease, epoch);
  to_agent(process, [message](AgentCore& core) { core.ended(message); });
}

void Cluster::asked_to_end(const std::shared_ptr<Process>& process, const v1::EndLease& order) {
  const auto id = order.lease();
  if (process->running.count(id) == 0)
    return; // its end is on its way
  const auto grace = std::chrono::milliseconds{order.grace_ms()};
  const bool sticks = !calm_ && faults_.lost_workers > 0 && grace > Duration::zero() && chance(10);
  if (!sticks) {
    time_.at(time_.now() + soon(50), [this, process, id] {
      if (process->running.count(id) > 0)
        end(process, id, std::nullopt);
    });
    return;
  }
  if (chance(20)) {
    ++coverage_["worker stuck"];
    return; // user code keeps the worker itself from going on
  }
  time_.at(time_.now() + grace, [this, process, order] {
    if (process->running.count(order.lease()) == 0)
      return;
    ++coverage_["holder stuck"];
    v1::LeaseStuck message;
    message.set_lease(order.lease());
    message.set_epoch(order.epoch());
    message.set_text("it does not stop");
    to_agent(process, [message](AgentCore& core) { core.stuck(message); });
  });
}

void Cluster::revoke(const std::shared_ptr<Process>& process, const v1::DeviceFault& order) {
  if (chance(20))
    return; // a call into the driver does not come back: its agent ends the process
  for (const auto lease : process->running) {
    const auto& devices = process->node.held.at(lease).lease().devices();
    const bool on = std::any_of(devices.begin(), devices.end(), [&](const v1::DeviceGrant& device) {
      return std::find(order.devices().begin(), order.devices().end(), device.index()) != order.devices().end();
    });
    if (on)
      time_.at(time_.now() + soon(50), [this, process, lease] {
        if (process->running.count(lease) > 0)
          end(process, lease, Error{Errc::lease_revoked, "its device has failed"});
      });
  }
}

void Cluster::end_itself(const std::shared_ptr<Process>& process, std::uint64_t lease) {
  auto& node = process->node;
  const auto held = stop_running(process, lease);
  const auto actor = held.actor().actor();
  note(fmt::format("actor {} ends itself under lease {}", actor, lease));
  auto message = lease_end(lease, held.lease().epoch(), Error{Errc::actor_died, "it has done its work"});
  message.set_by_itself(true);
  v1::OwnEnd own;
  own.set_actor(actor);
  *own.mutable_end() = message;
  process->told.push_back(own);
  to_agent(process, [this, &node, process, own](AgentCore& core) {
    std::erase_if(process->told, [&](const auto& told) { return told.actor() == own.actor(); });
    const auto known = core.held();
    if (std::find(known.begin(), known.end(), LeaseId{own.end().lease()}) != known.end()) {
      ++coverage_["own end"];
      node.own_ends.push_back(own);
    }
    core.ended(own.end());
  });
  // What is left of an actor may take its process along.
  if (!calm_ && faults_.lost_workers > 0 && chance(20)) {
    ++coverage_["worker lost behind an own end"];
    exit(process);
  }
}

/// A sticky error: every holder of the process has lost the device, and says so.
void Cluster::lose_context(const std::shared_ptr<Process>& process, int device) {
  ++coverage_["context lost"];
  note(fmt::format("worker {} of {} loses device {}", process->number, process->node.offer.name(), device));
  for (const auto lease : std::exchange(process->running, {})) {
    const auto epoch = process->node.held.at(lease).lease().epoch();
    unclaim(lease); // the memory is free when the process is gone
    auto message = lease_end(lease, epoch, Error{Errc::context_lost, "an illegal address"});
    message.add_lost_devices(device);
    to_agent(process, [message](AgentCore& core) { core.ended(message); });
  }
}

} // namespace simulation
