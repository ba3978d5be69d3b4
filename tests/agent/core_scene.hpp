// An agent's core in a world that writes down what it does, with a clock that a test moves.
#pragma once

#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/wire/lease_end.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace agent_test {

using namespace gpuactors;

/// The broker, or a worker by its number.
struct Somebody : Contact {
  explicit Somebody(std::uint64_t which) : number(which) {
    // nop
  }

  std::uint64_t number;
};

class World : public AgentWorld {
public:
  struct Reminder {
    TimePoint due;
    AgentWake what;
    std::uint64_t worker;
  };

  TimePoint now() const override {
    return time;
  }

  std::int64_t unix_ns() const override {
    return 0;
  }

  void wake(Duration after, AgentWake what, std::uint64_t about) override {
    reminders.push_back({time + after, what, about});
  }

  void post(const ContactPtr&, v1::HeldAhead message) override {
    for (const auto& held : message.held()) {
      told_held.insert(held.lease().id());
      if (held.retired())
        told_retired.insert(held.lease().id());
    }
  }

  void post(const ContactPtr&, v1::LeaseStarted message) override {
    started.push_back(std::move(message));
  }

  void post(const ContactPtr&, v1::LeaseEnded message) override {
    ended.push_back(std::move(message));
  }

  void post(const ContactPtr&, v1::ActorSaved message) override {
    saved.push_back(std::move(message));
  }

  void post(const ContactPtr&, v1::HolderUsage message) override {
    if (message.has_certificate())
      certificates.push_back(std::move(message));
  }

  void post(const ContactPtr&, v1::DeviceFault message) override {
    faults.push_back(std::move(message));
  }

  void post(const ContactPtr&, v1::DeviceUse) override {
    // nop
  }

  void post(const ContactPtr&, v1::NodePrograms message) override {
    programs.push_back(std::move(message));
  }

  void ask(const ContactPtr&, v1::RegisterNode message, BrokerReply reply) override {
    registration = std::move(message);
    answer = std::move(reply);
  }

  void ask(const ContactPtr&, v1::DrainNode message, BrokerReply reply) override {
    drains.push_back(std::move(message));
    answer = std::move(reply);
  }

  void ask(const ContactPtr&, v1::Goodbye, BrokerReply reply) override {
    answer = std::move(reply);
  }

  Result<void> start(const WorkerCommand& command, const v1::HeldLease*) override {
    workers.push_back(command);
    if (refuses_workers)
      return fail(*refuses_workers, "there is no room for another process");
    return {};
  }

  void kill(std::uint64_t worker) override {
    killed.insert(worker);
  }

  void watch(const ContactPtr&, std::uint64_t) override {
    // nop
  }

  void order(const ContactPtr& worker, const v1::StartRunner& order) override {
    note(worker, "start", order.lease().id());
  }

  void order(const ContactPtr& worker, const v1::StartActor& order, const Payload&) override {
    note(worker, "start", order.lease().id());
  }

  void order(const ContactPtr& worker, const v1::EndLease& order) override {
    note(worker, "end", order.lease());
  }

  void order(const ContactPtr& worker, const v1::DeviceFault&) override {
    note(worker, "fault", 0);
  }

  void order(const ContactPtr& worker, const v1::EndProcess& order) override {
    note(worker, "die", 0);
    last_words.push_back(order.text());
  }

  void look_at_memory(MemoryQuery query) override {
    looks.push_back(std::move(query));
  }

  bool mps_runs() const override {
    return false;
  }

  void holder_begins(std::uint64_t, const v1::HeldLease&, std::int64_t) override {
    // nop
  }

  void holder_ended(std::uint64_t, std::uint64_t) override {
    // nop
  }

  void worker_ended(std::uint64_t) override {
    // nop
  }

  std::string address() const override {
    return "a:1";
  }

  void notice(std::string text) override {
    notices += text + '\n';
  }

  void registered() override {
    ++times_registered;
  }

  void unregistered() override {
    ++times_unregistered;
  }

  void emptied() override {
    ++times_emptied;
  }

  void parted() override {
    ++times_parted;
  }

  void look_elsewhere(const Error&) override {
    ++times_sent_away;
  }

  TimePoint time{std::chrono::hours{1}};
  std::vector<Reminder> reminders;
  std::vector<v1::LeaseStarted> started;
  std::vector<v1::LeaseEnded> ended;
  std::vector<v1::ActorSaved> saved;
  std::vector<v1::DeviceFault> faults;
  std::vector<v1::NodePrograms> programs;
  std::vector<v1::DrainNode> drains;
  std::set<std::uint64_t> told_held;
  std::set<std::uint64_t> told_retired;
  v1::RegisterNode registration;
  /// The reply to what was asked last.
  BrokerReply answer;
  /// Why no process can be started.
  std::optional<Errc> refuses_workers;
  std::vector<WorkerCommand> workers;
  std::set<std::uint64_t> killed;
  /// "worker 1: start 7"
  std::vector<std::string> orders;
  /// Why workers are to end, and what was to be looked at.
  std::vector<std::string> last_words;
  std::vector<MemoryQuery> looks;
  std::string notices;
  std::vector<v1::HolderUsage> certificates;
  int times_registered = 0;
  int times_unregistered = 0;
  int times_emptied = 0;
  int times_parted = 0;
  int times_sent_away = 0;

private:
  void note(const ContactPtr& worker, const std::string& what, std::uint64_t lease) {
    const auto number = static_cast<const Somebody&>(*worker).number;
    orders.push_back("worker " + std::to_string(number) + ": " + what + ' ' + std::to_string(lease));
  }
};

/// A node "node" with GPUs, registered with a broker.
class Scene {
public:
  explicit Scene(ProgramTable programs = {}, int devices = 2, AgentOptions options = {}) {
    options.programs = std::move(programs);
    options.node.set_name("node");
    for (int index = 0; index < devices; ++index) {
      auto* device = options.node.add_devices();
      device->set_index(index);
      device->set_kind("cuda");
      device->set_uuid("GPU-" + std::to_string(index));
    }
    options.id = 1;
    options.host = "h";
    core = std::make_unique<AgentCore>(world, std::move(options));
    core->broker_changed(std::make_shared<Somebody>(0));
    world.answer(Result<void>{});
  }

  struct Wanted {
    int device = 0;
    bool isolated = false;
    std::uint64_t parent = 0;
    /// An environment variable.
    std::string variable{};
    /// The type of its tasks.
    std::string task{};
    /// In bytes.
    std::uint64_t host_memory = 0;
  };

  /// The broker orders a lease: on a device, or none if that is negative.
  void lease(std::uint64_t id, const Wanted& wanted) {
    v1::StartRunner order;
    order.mutable_lease()->set_id(id);
    order.mutable_lease()->set_epoch(1);
    order.mutable_lease()->set_parent(wanted.parent);
    if (wanted.device >= 0) {
      auto* device = order.mutable_lease()->add_devices();
      device->set_index(wanted.device);
      device->set_share_units(1000);
    }
    if (wanted.host_memory > 0)
      (*order.mutable_lease()->mutable_resource_units())["host_memory"] = static_cast<std::int64_t>(wanted.host_memory);
    order.set_task(wanted.task);
    order.set_isolated(wanted.isolated || !wanted.variable.empty());
    if (!wanted.variable.empty())
      (*order.mutable_environment())[wanted.variable] = "x";
    core->start(order);
  }

  void lease(std::uint64_t id) {
    lease(id, Wanted{});
  }

  void come_up(std::uint64_t worker, std::uint32_t pid = 0) {
    v1::WorkerHello message;
    message.set_worker(worker);
    message.set_pid(pid);
    static_cast<void>(core->worker_up(message, std::make_shared<Somebody>(worker)));
  }

  void begin(std::uint64_t id) {
    v1::LeaseStarted message;
    message.set_lease(id);
    message.set_epoch(1);
    core->started(message);
  }

  /// The worker says that the holder has ended.
  void end(std::uint64_t id) {
    core->ended(lease_end(id, 1));
  }

  /// The worker says that the holder has ended because it has lost device 0.
  void lose(std::uint64_t id) {
    auto message = lease_end(id, 1);
    message.add_lost_devices(0);
    core->ended(message);
  }

  void order_end(std::uint64_t id, std::chrono::milliseconds grace) {
    v1::EndLease order;
    order.set_lease(id);
    order.set_epoch(1);
    order.set_grace_ms(static_cast<std::uint64_t>(grace.count()));
    core->end(order);
  }

  /// Other programs, which see both devices.
  void change(ProgramTable programs) {
    core->programs_changed(std::move(programs), {"GPU-0", "GPU-1"});
  }

  void fail_device(int index) {
    v1::DeviceFault fault;
    fault.add_uuids("GPU-" + std::to_string(index));
    fault.set_reason("it fell off the bus");
    core->device_failed(fault);
  }

  /// Lets time pass, with all reminders that are due.
  void pass(Duration time) {
    const auto until = world.time + time;
    for (;;) {
      const auto next = std::min_element(world.reminders.begin(), world.reminders.end(),
                                         [](const auto& left, const auto& right) { return left.due < right.due; });
      if (next == world.reminders.end() || next->due > until)
        break;
      const auto reminder = *next;
      world.reminders.erase(next);
      world.time = std::max(world.time, reminder.due);
      core->wake(reminder.what, reminder.worker);
    }
    world.time = until;
  }

  [[nodiscard]] bool ordered(const std::string& what) const {
    return std::find(world.orders.begin(), world.orders.end(), what) != world.orders.end();
  }

  /// The report of a lease's end; null: there was none.
  [[nodiscard]] const v1::LeaseEnded* end_of(std::uint64_t id) const {
    const auto report =
        std::find_if(world.ended.begin(), world.ended.end(), [&](const auto& ended) { return ended.lease() == id; });
    return report != world.ended.end() ? &*report : nullptr;
  }

  World world;
  std::unique_ptr<AgentCore> core;
};

} // namespace agent_test
