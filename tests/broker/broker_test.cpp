// The broker by itself: a client and agents that are played by the test.
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/broker/state_store.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <wire/system.hpp>

#include <atomic>
#include <future>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// One answer of the broker.
template <class Out>
class Awaited : public PendingReply {
public:
  void on_reply(MessageContent& content) override {
    result_.set_value(content.get_as<Out>(0));
  }

  void on_error(Error error) override {
    result_.set_value(fail(std::move(error)));
  }

  std::future<Result<Out>> future() {
    return result_.get_future();
  }

private:
  std::promise<Result<Out>> result_;
};

/// What an agent was told to start, in its order.
struct Orders {
  std::mutex mutex;
  std::vector<v1::Lease> runners;
  std::vector<v1::StartActor> actors;
  /// Actors die while they are being started.
  std::atomic<bool> crash{false};
};

/// Starts whatever it is told to start, in no time, and ends it when it is told.
caf::behavior agent(caf::event_based_actor* self, std::shared_ptr<Orders> orders, caf::strong_actor_ptr broker) {
  const auto started = [self, broker](const v1::Lease& lease) {
    v1::LeaseStarted message;
    message.set_lease(lease.id());
    message.set_epoch(lease.epoch());
    const auto me = caf::actor_cast<caf::strong_actor_ptr>(self);
    caf_version::post(broker, std::move(message), me, me);
  };
  return {
      [=](const v1::StartRunner& order) {
        {
          const std::lock_guard lock{orders->mutex};
          orders->runners.push_back(order.lease());
        }
        started(order.lease());
      },
      [=](const v1::StartActor& order, const Payload&) {
        {
          const std::lock_guard lock{orders->mutex};
          orders->actors.push_back(order);
        }
        if (!orders->crash)
          return started(order.lease());
        v1::LeaseEnded ended;
        ended.set_lease(order.lease().id());
        ended.set_epoch(order.lease().epoch());
        ended.set_error(static_cast<std::uint32_t>(Errc::worker_died));
        caf_version::post(broker, std::move(ended));
      },
      [=](const v1::EndLease& order) {
        v1::LeaseEnded ended;
        ended.set_lease(order.lease());
        ended.set_epoch(order.epoch());
        caf_version::post(broker, std::move(ended));
      },
  };
}

/// A broker, and a client of it.
struct Scene {
  explicit Scene(BrokerOptions options = {}) {
    broker = caf::actor_cast<caf::strong_actor_ptr>(system.get().spawn<ResourceBroker>(std::move(options)));
  }

  ~Scene() {
    for (const auto& known : agents)
      caf::anon_send_exit(known, caf::exit_reason::kill);
    caf::anon_send_exit(broker, caf::exit_reason::user_shutdown);
    agents.clear();
    port.close();
    broker = nullptr;
  }

  template <class Out, class... Ts>
  std::future<Result<Out>> ask(Ts&&... xs) {
    auto answer = std::make_shared<Awaited<Out>>();
    auto future = answer->future();
    port.ask(answer, broker, deadline_after(Clock::now(), 30s), std::forward<Ts>(xs)...);
    return future;
  }

  template <class Out, class... Ts>
  Out must(Ts&&... xs) {
    auto result = ask<Out>(std::forward<Ts>(xs)...).get();
    INFO((result ? "" : to_string(result.error())));
    REQUIRE(result.has_value());
    return *result;
  }

  caf::strong_actor_ptr make_agent() {
    agents.push_back(caf::actor_cast<caf::strong_actor_ptr>(system.get().spawn(agent, orders, broker)));
    return agents.back();
  }

  static v1::RegisterNode node(const std::string& name, std::uint64_t id) {
    v1::RegisterNode message;
    message.mutable_node()->set_name(name);
    auto& device = *message.mutable_node()->add_devices();
    device.set_kind("host");
    device.set_name("device");
    device.set_memory_bytes(1U << 20);
    device.set_units(1);
    message.set_agent(id);
    return message;
  }

  void hello() {
    v1::Hello message;
    message.set_client(client);
    must<v1::Done>(message, port.handle());
  }

  /// Asks for one device.
  v1::AcquireLease acquire(std::uint64_t number) const {
    v1::AcquireLease message;
    message.mutable_request()->set_gpu_units(10'000);
    message.set_client(client);
    message.set_client_request(number);
    return message;
  }

  void on_message(MessageContent& content) {
    if (!content.match_elements<v1::ReclaimLease>())
      return;
    ++reclaimed;
    if (!give_back)
      return;
    const auto lease = content.get_as<v1::ReclaimLease>(0).lease();
    v1::ReleaseLease release;
    release.set_lease(lease);
    {
      const std::lock_guard lock{orders->mutex};
      for (const auto& known : orders->runners)
        if (known.id() == lease)
          release.set_epoch(known.epoch());
    }
    caf_version::post(broker, std::move(release));
  }

  std::uint64_t client = 7;
  System system;
  /// Leases that were called in, and whether they are then given back.
  std::atomic<int> reclaimed{0};
  std::atomic<bool> give_back{false};
  RequestPort port{system.get(), [this](MessageContent& content) { on_message(content); }};
  std::shared_ptr<Orders> orders = std::make_shared<Orders>();
  std::vector<caf::strong_actor_ptr> agents;
  caf::strong_actor_ptr broker;
};

std::unique_ptr<StateStore> open_store(const TemporaryFolder& folder) {
  auto store = StateStore::open(folder / "state.db");
  INFO((store ? "" : to_string(store.error())));
  REQUIRE(store.has_value());
  return std::move(*store);
}

} // namespace

TEST_CASE("a lease goes to the client that asked for it, with who runs there", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  const auto granted = scene.must<v1::Granted>(scene.acquire(1));
  CHECK(granted.lease().node() == "n0");
  CHECK(granted.lease().devices_size() == 1);
  CHECK(scene.must<v1::ClusterState>(v1::GetState{}).leases_size() == 1);
}

TEST_CASE("the file knows of ids before they are given out, so that a clock which is set back gives none twice",
          "[broker]") {
  TemporaryFolder folder;
  constexpr std::uint64_t last_id = 1'000;
  std::uint64_t given = 0;
  {
    BrokerOptions options;
    options.last_id = last_id;
    options.settle = 1ms;
    options.store = open_store(folder);
    Scene scene{std::move(options)};
    scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
    scene.hello();
    given = scene.must<v1::Granted>(scene.acquire(1)).lease().id();
    CHECK(given > last_id);
  }
  const auto ids = open_store(folder)->load(StateSection::ids);
  REQUIRE(ids.has_value());
  REQUIRE(ids->size() == 1);
  CHECK(ids->front().key == StateKey{std::string{reserved_ids_key}});
  CHECK(std::stoull(ids->front().value) > given);
}

TEST_CASE("a node that registers again while a broker waits for others is taken by its latest connection", "[broker]") {
  TemporaryFolder folder;
  auto store = open_store(folder);
  v1::StoredGroup group;
  group.set_id(5);
  group.mutable_request()->set_detached(true);
  group.mutable_request()->set_client(7);
  for (int i = 0; i < 2; ++i) {
    group.mutable_request()->add_bundles()->set_gpu_units(10'000);
    auto& bundle = *group.add_bundles();
    bundle.set_node("n" + std::to_string(i));
    bundle.set_bundle(i);
    auto& device = *bundle.add_devices();
    device.set_share_units(10'000);
    device.set_memory_bytes(1U << 20);
  }
  store->put(StateSection::groups, std::uint64_t{5}, group.SerializeAsString());
  REQUIRE(store->commit().has_value());

  BrokerOptions options;
  options.last_id = 100;
  options.settle = 10min;
  options.store = std::move(store);
  Scene scene{std::move(options)};
  const auto lost = scene.make_agent();
  auto first = scene.ask<v1::Done>(Scene::node("n0", 1), lost);
  caf::anon_send_exit(lost, caf::exit_reason::kill);
  auto second = scene.ask<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  const auto refused = first.get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::unavailable);
  scene.must<v1::Done>(Scene::node("n1", 2), scene.make_agent());
  CHECK(second.get().has_value());
  const auto state = scene.must<v1::ClusterState>(v1::GetState{});
  CHECK(state.nodes_size() == 2);
  REQUIRE(state.groups_size() == 1);
  CHECK(state.groups(0).state() == "placed");
}

TEST_CASE("what a client has is kept for the time that it asked for, and is its own when it is back", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  const auto connect = [&](std::uint64_t lease) {
    v1::Hello hello;
    hello.set_client(scene.client);
    hello.set_reconnect_grace_ms(60'000);
    if (lease != 0)
      hello.add_leases(lease);
    auto connection = scene.make_agent();
    scene.must<v1::Done>(hello, connection);
    return connection;
  };
  auto connection = connect(0);
  const auto lease = scene.must<v1::Granted>(scene.acquire(1)).lease();
  // A request that waits is withdrawn with the connection: it is asked again.
  auto waiting = scene.ask<v1::Granted>(scene.acquire(2));
  const auto state = [&] { return scene.must<v1::ClusterState>(v1::GetState{}); };
  REQUIRE(eventually([&] { return state().queue_size() == 1; }));
  caf::anon_send_exit(connection, caf::exit_reason::kill);
  REQUIRE(eventually([&] { return state().clients_size() == 1 && state().clients(0).away(); }));
  CHECK(state().leases_size() == 1);
  CHECK(state().queue_size() == 0);
  connection = connect(lease.id());
  CHECK_FALSE(state().clients(0).away());
  CHECK(state().leases_size() == 1);

  v1::Goodbye goodbye;
  goodbye.set_client(scene.client);
  scene.must<v1::Done>(goodbye);
  caf::anon_send_exit(connection, caf::exit_reason::kill);
  CHECK(eventually([&] { return state().leases_size() == 0 && state().clients_size() == 0; }));
  // Of what was withdrawn nobody is told, since its connection is gone; CAF 1.x says itself that there is no answer.
  scene.port.close();
  CHECK_FALSE(waiting.get().has_value());
}

TEST_CASE("what a client has ends when it is not back in time", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  v1::Hello hello;
  hello.set_client(scene.client);
  hello.set_reconnect_grace_ms(1);
  const auto connection = scene.make_agent();
  scene.must<v1::Done>(hello, connection);
  scene.must<v1::Granted>(scene.acquire(1));
  caf::anon_send_exit(connection, caf::exit_reason::kill);
  CHECK(eventually([&] { return scene.must<v1::ClusterState>(v1::GetState{}).leases_size() == 0; }));
}

TEST_CASE("a node that was drained takes new work when it is told to, and serves who waits", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  v1::DrainNode drain;
  drain.set_name("n0");
  scene.must<v1::Done>(drain);
  auto waiting = scene.ask<v1::Granted>(scene.acquire(1));
  REQUIRE(eventually([&] { return scene.must<v1::ClusterState>(v1::GetState{}).queue_size() == 1; }));
  CHECK(scene.must<v1::ClusterState>(v1::GetState{}).queue(0).reason()
        == "every node that could serve it is being drained: n0");
  drain.set_resume(true);
  scene.must<v1::Done>(drain);
  CHECK(waiting.get().has_value());
  drain.set_name("n1");
  CHECK(scene.ask<v1::Done>(drain).get().error().code() == Errc::not_found);
}

TEST_CASE("what cannot be served now does not call leases in again and again", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  scene.must<v1::Granted>(scene.acquire(1));
  auto two = scene.acquire(2);
  two.mutable_request()->set_gpu_units(20'000);
  two.mutable_request()->set_wait_for_nodes(true);
  auto waiting = scene.ask<v1::Granted>(two);
  REQUIRE(eventually([&] { return scene.must<v1::ClusterState>(v1::GetState{}).queue_size() == 1; }));
  const auto before = scene.reclaimed.load();
  auto patient = scene.acquire(3);
  patient.mutable_request()->set_gpu_units(20'000);
  patient.mutable_request()->set_wait_for_nodes(true);
  patient.mutable_request()->set_queue_timeout_ms(std::chrono::milliseconds{5 * limits::lease_turn}.count());
  CHECK(scene.ask<v1::Granted>(patient).get().error().code() == Errc::no_capacity);
  // When it came, like any request; not every turn since.
  CHECK(scene.reclaimed.load() <= before + 1);
}

TEST_CASE("a group that waits has leases called in that were granted since", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  scene.give_back = true;
  scene.must<v1::Granted>(scene.acquire(1));
  // One task after the other, each of which asks before the one before it is done: some of them always wait.
  auto next = scene.ask<v1::Granted>(scene.acquire(2));
  auto last = scene.ask<v1::Granted>(scene.acquire(3));
  v1::SubmitGroup group;
  group.add_bundles()->set_gpu_units(10'000);
  group.set_client(scene.client);
  group.set_client_request(100);
  auto placed = scene.ask<v1::GroupInfo>(group);
  REQUIRE(next.get().has_value());
  REQUIRE(last.get().has_value());
  CHECK(placed.get().has_value());
}

TEST_CASE("a constructor that crashes again and again is not waited for longer than a first start may take",
          "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  scene.orders->crash = true;
  v1::SpawnActor spawn;
  spawn.mutable_spec()->set_type("trainer");
  spawn.mutable_spec()->set_max_restarts(-1);
  spawn.mutable_spec()->set_spawn_timeout_ms(1'000);
  spawn.mutable_request()->set_gpu_units(5'000);
  spawn.set_client(scene.client);
  spawn.set_client_request(1);
  const auto spawned = scene.ask<v1::ActorInfo>(spawn, Payload{}).get();
  REQUIRE_FALSE(spawned.has_value());
  CHECK(spawned.error().code() == Errc::deadline_exceeded);
  CHECK(eventually([&] { return scene.must<v1::ClusterState>(v1::GetState{}).actors_size() == 0; }));
}

TEST_CASE("the broker tells of actors that have ended, and counts what has happened", "[broker]") {
  Scene scene;
  scene.must<v1::Done>(Scene::node("n0", 1), scene.make_agent());
  scene.hello();
  for (int i = 0; i < 3; ++i) {
    v1::SpawnActor spawn;
    spawn.mutable_spec()->set_type("trainer");
    spawn.mutable_spec()->set_name("t" + std::to_string(i));
    spawn.mutable_request()->set_gpu_units(5'000);
    spawn.set_client(scene.client);
    spawn.set_client_request(static_cast<std::uint64_t>(i) + 1);
    scene.must<v1::ActorInfo>(spawn, Payload{});
    v1::KillActor kill;
    kill.set_name(spawn.spec().name());
    kill.set_no_restart(true);
    scene.must<v1::Done>(kill);
  }
  v1::GetState wanted;
  wanted.set_ended(2);
  const auto state = scene.must<v1::ClusterState>(wanted);
  REQUIRE(state.ended_size() == 2);
  CHECK(state.ended(0).actor().name() == "t2");
  CHECK(state.ended(1).actor().name() == "t1");
  CHECK(state.ended(0).actor().lease().node() == "n0");
  CHECK(state.ended(0).unix_ns() >= state.started_unix_ns());
  CHECK(state.ended(0).error() == static_cast<std::uint32_t>(Errc::actor_died));
  // Whoever still has its number hears how it ended.
  v1::FindActor find;
  find.set_id(state.ended(0).actor().id());
  const auto gone = scene.ask<v1::ActorInfo>(find).get();
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error() == Error{Errc::actor_died, "actor t2 (trainer) has ended: it was killed"});
  CHECK(state.counters().at("died") == 3);
  CHECK(state.counters().at("died/actor_died") == 3);
  CHECK(state.counters().at("node_added") == 1);
  CHECK_FALSE(state.release().empty());
}
