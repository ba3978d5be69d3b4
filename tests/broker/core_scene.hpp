// The broker's core, with a world that writes down what it is told, and a node and clients as a test plays them.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace broker_test {

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

/// Writes down what it is told.
class World : public BrokerWorld {
public:
  [[nodiscard]] TimePoint now() const override {
    return time;
  }
  [[nodiscard]] Duration machine_time() const override {
    return time.time_since_epoch() + suspended;
  }
  [[nodiscard]] std::int64_t unix_ns() const override {
    return 0;
  }
  void post(const ContactPtr&, v1::StartRunner order) override {
    runners.push_back(std::move(order));
  }
  void post(const ContactPtr&, v1::StartActor order, Payload) override {
    starts.push_back(std::move(order));
  }
  void post(const ContactPtr&, v1::EndLease order) override {
    ends.push_back(std::move(order));
  }
  void post(const ContactPtr&, v1::ReclaimLease order) override {
    reclaims.push_back(std::move(order));
  }
  void wake(Duration after, Wake what) override {
    wakes.emplace(deadline_after(time, after), what);
  }
  void watch(const ContactPtr&, std::uint64_t peer) override {
    last_peer = peer;
  }

  /// The next reason to wake the core until then; none: it is that time now.
  std::optional<Wake> next(TimePoint until) {
    if (wakes.empty() || wakes.begin()->first > until) {
      time = std::max(time, until);
      return std::nullopt;
    }
    const auto due = wakes.extract(wakes.begin());
    time = std::max(time, due.key());
    return due.mapped();
  }

  TimePoint time{1h};
  /// Not counted by `time`.
  Duration suspended{};
  std::multimap<TimePoint, Wake> wakes;
  std::vector<v1::StartActor> starts;
  std::vector<v1::StartRunner> runners;
  std::vector<v1::ReclaimLease> reclaims;
  std::vector<v1::EndLease> ends;
  std::uint64_t last_peer = 0;
};

class Somebody : public Contact {};

/// A broker with a node, and clients that spawn actors.
struct Scene {
  explicit Scene(BrokerOptions options = {}) : core(world, std::move(options)) {
    core.start();
  }

  void greet(std::uint64_t client, const Caller& caller = {}, std::chrono::milliseconds grace = {}) {
    v1::Hello message;
    message.set_client(client);
    message.set_reconnect_grace_ms(static_cast<std::uint64_t>(grace.count()));
    must(core.hello(message, caller, std::make_shared<Somebody>()));
  }

  void add_node(const std::vector<v1::HeldLease>& held = {}) {
    node_peer = add_node("n0", 7, held);
  }

  /// @returns the number under which the core watches the node's agent.
  std::uint64_t add_node(const std::string& name, std::uint64_t agent, const std::vector<v1::HeldLease>& held = {},
                         int devices = 0) {
    v1::RegisterNode message;
    auto& node = *message.mutable_node();
    node.set_name(name);
    node.set_cpu_units(100'000);
    for (int index = 0; index < devices; ++index) {
      auto& device = *node.add_devices();
      device.set_index(index);
      device.set_kind("host");
      device.set_memory_bytes(8U << 20U);
      device.set_units(1);
    }
    message.set_agent(agent);
    for (const auto& lease : held)
      *message.add_held() = lease;
    core.add_node(message, std::make_shared<Somebody>(),
                  BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
    return world.last_peer;
  }

  /// A request for a detached actor that restarts up to five times.
  static v1::SpawnActor actor_of(std::uint64_t client, const std::string& name) {
    v1::SpawnActor message;
    message.set_client(client);
    message.mutable_spec()->set_type("T");
    message.mutable_spec()->set_name(name);
    message.mutable_spec()->set_detached(true);
    message.mutable_spec()->set_max_restarts(5);
    return message;
  }

  void ask(v1::SpawnActor message, const Caller& caller = {}) {
    message.set_client_request(++last_request);
    core.spawn_actor(message, caller, {}, BrokerAnswer<FoundActor>{[](const Result<FoundActor>&) {}});
  }

  /// Has an actor spawned and started. @returns the order with which its node started it.
  v1::StartActor spawn(std::uint64_t client, const std::string& name, const Caller& caller = {}, int restarts = 5) {
    auto message = actor_of(client, name);
    message.mutable_spec()->set_max_restarts(restarts);
    return spawn(message, caller);
  }

  v1::StartActor spawn(const v1::SpawnActor& message, const Caller& caller = {}) {
    ask(message, caller);
    REQUIRE_FALSE(world.starts.empty());
    start(world.starts.back());
    return world.starts.back();
  }

  /// The same for one that restarts, on so much of devices.
  v1::StartActor spawn_on(std::int64_t gpu_units, int restarts = 5) {
    auto message = actor_of(1, "a");
    message.mutable_request()->set_gpu_units(gpu_units);
    message.mutable_spec()->set_max_restarts(restarts);
    return spawn(message);
  }

  /// Has a placement group of one cpu made for the first client. @returns its id.
  std::uint64_t add_group(bool detached = false) {
    v1::SubmitGroup group;
    group.set_client(1);
    group.set_detached(detached);
    group.set_client_request(++last_request);
    group.add_bundles()->set_cpu_units(10'000);
    std::uint64_t id = 0;
    core.submit_group(
        group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) { id = must(placed).id(); }});
    return id;
  }

  /// Has a detached group of two bundles placed, each on a node of its own.
  void add_spread_group() {
    v1::SubmitGroup group;
    group.set_client(1);
    group.set_client_request(++last_request);
    group.set_detached(true);
    group.set_strategy(v1::SubmitGroup::STRICT_SPREAD);
    group.add_bundles()->set_cpu_units(60'000);
    group.add_bundles()->set_cpu_units(60'000);
    core.submit_group(group, {}, BrokerAnswer<v1::GroupInfo>{[](const Result<v1::GroupInfo>& placed) {
                        CHECK(must(placed).state() == "placed");
                      }});
  }

  void start(const v1::StartActor& order) {
    v1::LeaseStarted started;
    started.set_lease(order.lease().id());
    started.set_epoch(order.lease().epoch());
    core.lease_started(started);
  }

  /// The lease's node reports that it has ended by itself.
  template <class Order>
  void end(const Order& order) {
    v1::LeaseEnded ended;
    ended.set_lease(order.lease().id());
    ended.set_epoch(order.lease().epoch());
    core.lease_ended(ended);
  }

  /// The node reports that its devices have failed.
  void fail(const std::string& node, const std::vector<int>& devices) {
    v1::DeviceFault message;
    message.set_node(node);
    for (const auto index : devices)
      message.add_devices(index);
    message.set_reason("it is broken");
    core.devices_failed(message);
  }

  /// @param deadline left out: what runs there stays.
  void drain(const std::string& node, std::optional<std::chrono::milliseconds> deadline = {}) {
    v1::DrainNode message;
    message.set_name(node);
    if (deadline)
      message.set_deadline_ms(to_milliseconds(*deadline));
    must(core.drain(message));
  }

  void undrain(const std::string& node) {
    v1::DrainNode message;
    message.set_name(node);
    message.set_resume(true);
    must(core.drain(message));
  }

  /// The node says that it stops.
  void goodbye(const std::string& node, std::uint64_t agent) {
    v1::Goodbye message;
    message.set_node(node);
    message.set_agent(agent);
    core.goodbye(message);
  }

  /// Goes on for so long, without standing still.
  void run(Duration time) {
    const auto until = world.time + time;
    while (const auto what = world.next(until))
      core.wake(*what);
  }

  /// Stands still for longer than others wait: what was due meanwhile is late.
  void stand_still() {
    world.time += 10s;
  }

  /// How many events of the kind there were.
  [[nodiscard]] std::uint64_t count(const std::string& kind) const {
    const auto state = core.state({});
    const auto found = state.counters().find(kind);
    return found == state.counters().end() ? 0 : found->second;
  }

  /// Why the last actor that has ended did; empty: none has.
  [[nodiscard]] std::string last_end() const {
    v1::GetState message;
    message.set_ended(1);
    const auto state = core.state(message);
    return state.ended_size() > 0 ? state.ended(0).reason() : std::string{};
  }

  Result<void> kill(const std::string& name, std::uint64_t grace_ms, const Caller& caller = {}) {
    v1::KillActor message;
    message.set_name(name);
    message.set_no_restart(true);
    message.set_grace_ms(grace_ms);
    // It may be answered after this call has returned: then it was granted.
    const auto answer = std::make_shared<Result<void>>();
    core.kill(message, caller, BrokerAnswer<void>{[answer](Result<void> result) { *answer = std::move(result); }});
    return *answer;
  }

  void save(const v1::StartActor& order, const std::string& state) {
    v1::ActorSaved message;
    message.set_lease(order.lease().id());
    message.set_epoch(order.lease().epoch());
    message.set_actor(order.actor());
    message.set_type("State");
    message.set_data(state);
    core.saved(message);
  }

  World world;
  BrokerCore core;
  std::uint64_t node_peer = 0;
  std::uint64_t last_request = 0;
};

inline v1::HeldLease held_by(const v1::StartActor& order) {
  v1::HeldLease held;
  *held.mutable_lease() = order.lease();
  held.set_client(order.client());
  held.set_client_request(order.client_request());
  *held.mutable_actor() = order;
  held.mutable_actor()->clear_lease();
  return held;
}

/// The same of one that has begun.
inline v1::HeldLease begun(const v1::StartActor& order) {
  auto held = held_by(order);
  held.mutable_started()->set_lease(order.lease().id());
  held.mutable_started()->set_epoch(order.lease().epoch());
  return held;
}

inline const std::uint64_t stop_grace = std::chrono::milliseconds{limits::stop_grace}.count();

} // namespace broker_test
