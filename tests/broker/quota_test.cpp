// Quotas in the broker's core: whose a request counts in, who gives way for it, and what a broker that starts again
// knows.
#include <gpuactors/plan/plan.hpp>

#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

#include <sstream>

using namespace broker_test;

namespace {

const Caller alice{"alice", false};
const Caller bob{"bob", false};

struct QuotaScene : Scene {
  explicit QuotaScene(BrokerOptions options = {}) : Scene(std::move(options)) {
    greet(1, alice);
    greet(2, bob);
    greet(3);
  }

  void add_devices(const std::vector<v1::HeldLease>& held = {}) {
    v1::RegisterNode message;
    auto& node = *message.mutable_node();
    node.set_name("n0");
    for (int index = 0; index < 4; ++index) {
      auto& device = *node.add_devices();
      device.set_index(index);
      device.set_memory_bytes(1'000);
    }
    message.set_agent(7);
    for (const auto& lease : held)
      *message.add_held() = lease;
    core.add_node(message, std::make_shared<Somebody>(),
                  BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  }

  /// Asks for a task's lease. @returns the order to start its runner, if it was granted at once.
  std::optional<v1::StartRunner> acquire(std::uint64_t client, const Caller& caller, std::int64_t units,
                                         v1::ResourceRequest request = {}) {
    v1::AcquireLease message;
    *message.mutable_request() = std::move(request);
    message.mutable_request()->set_gpu_units(units);
    message.set_client(client);
    message.set_client_request(++last_request);
    const auto before = world.runners.size();
    core.acquire(message, caller, BrokerAnswer<Grant>{[this](const Result<Grant>& grant) {
                   if (!grant)
                     refused = grant.error().message();
                 }});
    return world.runners.size() > before ? std::optional{world.runners.back()} : std::nullopt;
  }

  void set(const std::string& owner, std::int64_t units) {
    v1::SetQuota message;
    message.set_owner(owner);
    message.set_gpu_units(units);
    must(core.set_quota(message));
  }

  /// The client gives a lease back.
  void finish(const v1::StartRunner& order) {
    v1::LeaseEnded ended;
    ended.set_lease(order.lease().id());
    ended.set_epoch(order.lease().epoch());
    core.lease_ended(ended);
  }

  [[nodiscard]] bool reclaimed(const v1::StartRunner& order) const {
    return std::any_of(world.reclaims.begin(), world.reclaims.end(),
                       [&](const v1::ReclaimLease& reclaim) { return reclaim.lease() == order.lease().id(); });
  }

  /// "held of quota" in units, "held" without a quota.
  [[nodiscard]] std::string quota(const std::string& owner) const {
    const auto state = core.state({});
    for (const auto& entry : state.quotas())
      if (entry.owner() == owner)
        return std::to_string(entry.used_units())
               + (entry.has_gpu_units() ? " of " + std::to_string(entry.gpu_units()) : "");
    return "nothing";
  }

  std::string refused;
};

v1::HeldLease held_by(const v1::StartRunner& order) {
  v1::HeldLease held;
  *held.mutable_lease() = order.lease();
  held.set_client(order.client());
  held.set_client_request(order.client_request());
  held.mutable_started()->set_lease(order.lease().id());
  held.mutable_started()->set_epoch(order.lease().epoch());
  return held;
}

} // namespace

TEST_CASE("a client's requests count in the quota of its name, and a node's in nobody's", "[broker][core]") {
  QuotaScene scene{{.quotas = {{"*", Share{15'000}}}}};
  scene.add_devices();
  CHECK(scene.acquire(1, alice, 10'000));
  CHECK_FALSE(scene.acquire(1, alice, 10'000));
  CHECK(scene.acquire(2, bob, 10'000));
  CHECK(scene.acquire(3, {"n1", true}, 20'000));
  CHECK(scene.quota("alice") == "10000 of 15000");
  CHECK(scene.quota("n1") == "nothing");
  // Whatever it writes into its request.
  v1::ResourceRequest disguised;
  disguised.set_quota_owner("bob");
  CHECK_FALSE(scene.acquire(1, alice, 10'000, disguised));
  // A worker, which has a node's certificate, asks for whose task it runs.
  disguised.set_quota_owner("alice");
  CHECK_FALSE(scene.acquire(3, {"n1", true}, 10'000, disguised));
  CHECK(scene.core.state({}).queue_size() == 3);
}

TEST_CASE("a client borrows from no lease of another name", "[broker][core]") {
  QuotaScene scene;
  scene.add_devices();
  scene.set("alice", 5'000);
  const auto his = scene.acquire(2, bob, 40'000);
  REQUIRE(his);
  v1::ResourceRequest child;
  child.set_parent_lease(his->lease().id());
  CHECK_FALSE(scene.acquire(1, alice, 5'000, child));
  CHECK(scene.acquire(2, bob, 5'000, child)->lease().parent() == his->lease().id());
}

TEST_CASE("only leases of its own owner make way for what a quota keeps waiting", "[broker][core]") {
  QuotaScene scene;
  scene.add_devices();
  scene.set("alice", 10'000);
  const auto hers = scene.acquire(1, alice, 10'000);
  REQUIRE(hers);
  CHECK(scene.acquire(2, bob, 10'000));
  CHECK_FALSE(scene.acquire(1, alice, 5'000));
  REQUIRE(scene.world.reclaims.size() == 1);
  CHECK(scene.world.reclaims.front().lease() == hers->lease().id());
  scene.run(1min);
  CHECK(scene.world.reclaims.size() == 1);
}

TEST_CASE("no lease makes way for what waits in vain", "[broker][core]") {
  QuotaScene scene;
  scene.add_devices();
  scene.set("alice", 10'000);
  const auto hers = scene.acquire(1, alice, 5'000);
  const auto his = scene.acquire(2, bob, 10'000);
  v1::ResourceRequest patient;
  patient.set_wait_for_nodes(true);
  CHECK_FALSE(scene.acquire(1, alice, 20'000, patient));
  scene.run(1min);
  CHECK(scene.world.reclaims.empty());
  // With a higher quota, it waits for what is held.
  scene.set("alice", 20'000);
  scene.run(20s);
  CHECK(scene.reclaimed(*hers));
  CHECK_FALSE(scene.reclaimed(*his));
}

TEST_CASE("what is drawn from a group does not make way for what a quota keeps waiting", "[broker][core]") {
  QuotaScene scene;
  scene.add_devices();
  scene.set("alice", 10'000);
  v1::SubmitGroup group;
  group.set_client(1);
  group.set_client_request(++scene.last_request);
  group.add_bundles()->set_gpu_units(5'000);
  std::uint64_t id = 0;
  scene.core.submit_group(group, alice, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) {
                            must(placed);
                            id = placed->id();
                          }});
  v1::ResourceRequest inside;
  inside.set_group(id);
  const auto drawn = scene.acquire(1, alice, 5'000, inside);
  REQUIRE(drawn);
  const auto other = scene.acquire(1, alice, 5'000);
  REQUIRE(other);
  CHECK_FALSE(scene.acquire(1, alice, 6'000));
  scene.run(1min);
  CHECK(scene.reclaimed(*other));
  CHECK_FALSE(scene.reclaimed(*drawn));
}

TEST_CASE("turns stay short while what waits for a quota is served, and for whoever comes", "[broker][core]") {
  QuotaScene scene;
  scene.add_devices();
  scene.set("alice", 10'000);
  const auto first = scene.acquire(1, alice, 10'000);
  for (const auto units : {9'000, 8'000, 7'000})
    CHECK_FALSE(scene.acquire(1, alice, units));
  scene.run(1min);
  scene.finish(*first);
  REQUIRE(scene.world.runners.size() == 2);
  // The turn that was long already.
  const auto second = scene.world.runners.back();
  for (int step = 0; step < 100 && !scene.reclaimed(second); ++step)
    scene.run(100ms);
  CHECK(scene.reclaimed(second));
  scene.finish(second);
  REQUIRE(scene.world.runners.size() == 3);
  scene.run(250ms);
  CHECK(scene.reclaimed(scene.world.runners.back()));
  // Turns become long again; who is new is not told to wait for their end.
  scene.run(1min);
  const auto his = scene.acquire(2, bob, 30'000);
  REQUIRE(his);
  CHECK_FALSE(scene.acquire(3, {"n1", true}, 40'000));
  scene.finish(*his);
  const auto again = scene.acquire(2, bob, 10'000);
  REQUIRE(again);
  scene.run(250ms);
  CHECK(scene.reclaimed(*again));
}

TEST_CASE("a broker that starts again keeps quotas, and grants within them once it knows what is held",
          "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  std::optional<v1::StartRunner> task;
  std::optional<v1::StartActor> actor;
  {
    QuotaScene scene{{.settle = 1s, .store = store, .quotas = {{"alice", Share{10'000}}, {"bob", Share{5'000}}}}};
    scene.add_devices();
    scene.run(2s);
    scene.set("alice", 8'000);
    task = scene.acquire(1, alice, 5'000);
    REQUIRE(task);
    auto spawn = Scene::actor_of(1, "a");
    spawn.mutable_request()->set_gpu_units(2'500);
    actor = scene.spawn(spawn, alice);
    scene.core.finish();
  }
  // What its start says replaces what was kept.
  QuotaScene scene{{.last_id = 1'000, .settle = 1s, .store = store, .quotas = {{"bob", Share{20'000}}}}};
  CHECK(scene.quota("bob") == "0 of 20000");
  CHECK(scene.quota("alice") == "0 of 8000");
  v1::Hello again;
  again.set_client(1);
  again.add_leases(task->lease().id());
  must(scene.core.hello(again, alice, std::make_shared<Somebody>()));
  CHECK_FALSE(scene.acquire(1, alice, 2'500));
  scene.add_devices({held_by(*task), broker_test::held_by(*actor)});
  CHECK(scene.quota("alice") == "7500 of 8000");
  scene.run(2s);
  CHECK(scene.world.runners.empty());
  CHECK(scene.core.state({}).queue(0).reason()
        == "the quota of \"alice\" is 0.8 devices, it holds 0.75, and this is for 0.25 more");
}

TEST_CASE("a recorded run with quotas is repeated grant by grant", "[broker][core]") {
  const auto recording = std::make_shared<std::stringstream>();
  std::vector<std::uint64_t> granted;
  {
    QuotaScene scene{{.recording = recording, .quotas = {{"*", Share{10'000}}}}};
    scene.add_devices();
    const auto first = scene.acquire(1, alice, 7'500);
    scene.acquire(1, alice, 5'000);
    scene.acquire(2, bob, 5'000);
    scene.set("bob", 5'000);
    scene.acquire(2, bob, 2'500);
    v1::LeaseEnded ended;
    ended.set_lease(first->lease().id());
    ended.set_epoch(first->lease().epoch());
    scene.core.lease_ended(ended);
    scene.core.finish();
    for (const auto& order : scene.world.runners)
      granted.push_back(order.lease().request());
  }
  CHECK(granted == std::vector<std::uint64_t>{1, 3, 2});
  std::ostringstream out;
  must(run_plan(*recording, out));
  std::istringstream events{out.str()};
  std::vector<std::uint64_t> repeated;
  for (std::string line; std::getline(events, line);)
    if (const auto at = line.find("\"event\":\"granted\",\"id\":\"#"); at != std::string::npos)
      repeated.push_back(std::stoull(line.substr(line.find('#', at) + 1)));
  INFO(out.str());
  CHECK(repeated == granted);
}

TEST_CASE("a broker does not start with more quotas than it can have together with its store's", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StoredQuota one;
  one.set_gpu_units(1);
  for (std::size_t number = 0; number < limits::quotas; ++number)
    store->put(StateSection::quotas, "owner " + std::to_string(number), one.SerializeAsString());
  must(store->commit());
  must(BrokerCore::check_quotas({.store = store}));
  must(BrokerCore::check_quotas({.store = store, .quotas = {{"owner 7", Share{2}}}}));
  const auto refused = BrokerCore::check_quotas({.store = store, .quotas = {{"carol", Share{1}}}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message()
        == "1 quotas are given, 1001 with those of other names in the store: at most 1000 are allowed");
}

TEST_CASE("a quota that there is not cannot be removed, and there are not without end", "[broker][core]") {
  QuotaScene scene;
  scene.set("alice", 1);
  v1::SetQuota message;
  message.set_owner("alce");
  const auto refused = scene.core.set_quota(message);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message() == "no quota is set for \"alce\"; did you mean \"alice\"?");
  for (std::size_t number = 1; number < limits::quotas; ++number)
    scene.set("owner " + std::to_string(number), 1);
  message.set_owner("one more");
  message.set_gpu_units(1);
  CHECK(code_of(scene.core.set_quota(message)) == Errc::invalid_argument);
  scene.set("alice", 2);
  CHECK(scene.quota("alice") == "0 of 2");
}
