// What actors and tasks have spawned ends with them, unless it is detached.
#include <broker/core_scene.hpp>
#include <broker/memory_store.hpp>

using namespace broker_test;

namespace {

/// A request from inside a lease; not detached, without restarts.
v1::SpawnActor child_of(const v1::Lease& lease, const std::string& name, std::uint64_t run = 0) {
  auto message = Scene::actor_of(2, name);
  message.mutable_spec()->set_detached(false);
  message.mutable_spec()->set_max_restarts(0);
  message.mutable_spec()->mutable_spawner()->set_lease(lease.id());
  message.mutable_spec()->mutable_spawner()->set_run(run);
  return message;
}

/// A client and the worker in which its actors run, with one node.
struct Family : Scene {
  explicit Family(BrokerOptions options = {}) : Scene(std::move(options)) {
    greet(1);
    greet(2);
    add_node();
  }

  /// Has a lease for tasks granted, and its runner started.
  v1::Lease run_tasks() {
    v1::AcquireLease message;
    message.set_client(1);
    message.set_client_request(++last_request);
    message.mutable_request()->set_cpu_units(10'000);
    core.acquire(message, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
    start(world.runners.back());
    return world.runners.back().lease();
  }

  void start(const v1::StartRunner& order) {
    v1::LeaseStarted started;
    started.set_lease(order.lease().id());
    started.set_epoch(order.lease().epoch());
    core.lease_started(started);
  }
  using Scene::start;

  /// @param refused why the actor does not live, once that is known; outlives the answer.
  void ask_for(v1::SpawnActor message, std::optional<Errc>& refused) {
    message.set_client_request(++last_request);
    core.spawn_actor(message, {}, {}, BrokerAnswer<FoundActor>{[&refused](const Result<FoundActor>& found) {
                       if (!found)
                         refused = found.error().code();
                     }});
  }

  void end_task(const v1::Lease& lease, std::uint64_t run) {
    v1::Goodbye message;
    message.mutable_task()->set_lease(lease.id());
    message.mutable_task()->set_run(run);
    core.goodbye(message);
  }

  /// Whether the node was told to end it.
  [[nodiscard]] bool is_told(const v1::StartActor& order) const {
    return std::any_of(world.ends.begin(), world.ends.end(),
                       [&](const auto& end) { return end.lease() == order.lease().id(); });
  }

  [[nodiscard]] std::vector<std::string> actors() const {
    std::vector<std::string> names;
    const auto state = core.state({});
    for (const auto& actor : state.actors())
      names.push_back(actor.name() + (actor.state() == "stopping" ? ", stopping" : ""));
    return names;
  }
};

using Names = std::vector<std::string>;

} // namespace

TEST_CASE("an actor's children end with its life, and so do theirs", "[broker][core]") {
  Family scene;
  const auto parent = scene.spawn(1, "parent", {}, 0);
  const auto child = scene.spawn(child_of(parent.lease(), "child"));
  const auto grandchild = scene.spawn(child_of(child.lease(), "grandchild"));
  const auto other = scene.spawn(2, "other");
  scene.end(parent);
  CHECK(scene.is_told(child));
  CHECK_FALSE(scene.is_told(grandchild));
  scene.end(child);
  CHECK(scene.last_end() == "actor parent, which has spawned it, has ended");
  CHECK(scene.is_told(grandchild));
  scene.end(grandchild);
  CHECK(scene.last_end() == "actor child, which has spawned it, has ended");
  CHECK_FALSE(scene.is_told(other));
  CHECK(scene.actors() == Names{"other"});
}

TEST_CASE("a broker that was restarted lends what all those hold who wait for a request, not its sender's alone",
          "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node("n0", 7, {}, 1);
  auto owner = Scene::actor_of(1, "owner");
  owner.mutable_request()->set_gpu_units(10'000);
  const auto top = earlier.spawn(owner);
  auto helper = Scene::actor_of(1, "helper");
  helper.mutable_request()->set_parent_lease(top.lease().id());
  const auto middle = earlier.spawn(helper);

  Scene scene{{.last_id = 1'000}};
  scene.greet(1);
  scene.last_request = earlier.last_request;
  scene.add_node("n0", 7, {held_by(top), held_by(middle)}, 1);
  auto wanted = Scene::actor_of(1, "wanted");
  wanted.mutable_request()->set_gpu_units(5'000);
  wanted.mutable_request()->set_parent_lease(middle.lease().id());
  scene.ask(wanted);
  REQUIRE(scene.world.starts.size() == 1);
  CHECK(scene.world.starts.back().lease().parent() == top.lease().id());
}

TEST_CASE("a child whose place becomes free by the loss of its spawner's node leaves nothing behind",
          "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.greet(2);
  v1::SetQuota quota;
  quota.set_owner("alice");
  quota.set_gpu_units(10'000);
  must(scene.core.set_quota(quota));
  const auto node = scene.add_node("a", 8, {}, 1);
  const auto parent = scene.spawn(1, "parent", {}, 0);
  auto holder = Scene::actor_of(1, "holder");
  holder.mutable_spec()->set_max_restarts(0);
  holder.mutable_request()->set_gpu_units(10'000);
  holder.mutable_request()->set_quota_owner("alice");
  scene.spawn(holder);
  scene.add_node("b", 9, {}, 1);
  // The quota has no room for it, though a device is free; the loss of the other node makes room.
  auto child = child_of(parent.lease(), "child");
  child.mutable_request()->set_gpu_units(10'000);
  child.mutable_request()->set_quota_owner("alice");
  scene.ask(child);
  REQUIRE(scene.world.starts.size() == 2);
  scene.core.peer_down(node);
  const auto state = scene.core.state({});
  CHECK(state.actors().empty());
  CHECK(state.leases().empty());
  CHECK(scene.world.starts.size() == 2);
}

TEST_CASE("children of a life do not live in the next one, which may use their names", "[broker][core]") {
  Family scene;
  const auto first = scene.spawn(1, "parent");
  auto message = child_of(first.lease(), "child");
  message.mutable_spec()->set_max_restarts(-1);
  const auto child = scene.spawn(message);
  scene.end(first);
  REQUIRE(scene.world.starts.size() == 3); // the parent's next life
  const auto second = scene.world.starts.back();
  CHECK(second.restarts() == 1);
  scene.start(second);
  // It asks while the old one is ending.
  scene.ask(child_of(second.lease(), "child"));
  CHECK(scene.world.starts.size() == 3);
  scene.end(child);
  REQUIRE(scene.world.starts.size() == 4);
  const auto heir = scene.world.starts.back();
  scene.start(heir);
  CHECK(heir.actor() != child.actor());
  CHECK(scene.actors() == Names{"parent", "child"});
  scene.end(second);
  CHECK(scene.is_told(heir));
}

TEST_CASE("a child that waits for its place, or for its next life, ends with its parent", "[broker][core]") {
  Family scene;
  const auto parent = scene.spawn(1, "parent", {}, 0);
  auto restarting = child_of(parent.lease(), "restarting");
  restarting.mutable_spec()->set_max_restarts(-1);
  auto child = scene.spawn(restarting);
  while (scene.core.state({}).actors(1).state() != "restarting") { // until there is a pause before the next life
    scene.end(child);
    child = scene.world.starts.back();
    scene.start(child);
  }
  auto waiting = child_of(parent.lease(), "waiting");
  waiting.mutable_request()->set_cpu_units(95'000);
  const auto filler = scene.spawn([] {
    auto message = Scene::actor_of(1, "filler");
    message.mutable_request()->set_cpu_units(90'000);
    return message;
  }());
  std::optional<Errc> refused;
  scene.ask_for(waiting, refused);
  CHECK(scene.core.state({}).queue_size() == 1);
  scene.end(parent);
  CHECK(scene.core.state({}).queue_size() == 0);
  CHECK(scene.actors() == Names{"filler"});
  CHECK(refused == Errc::cancelled);
  scene.run(1min);
  CHECK(scene.actors() == Names{"filler"});
}

TEST_CASE("detached actors and groups outlive the actor that has asked for them", "[broker][core]") {
  Family scene;
  const auto parent = scene.spawn(1, "parent", {}, 0);
  auto message = child_of(parent.lease(), "detached");
  message.mutable_spec()->set_detached(true);
  const auto detached = scene.spawn(message);
  const auto group_of = [&](bool is_detached) {
    v1::SubmitGroup group;
    group.set_client(2);
    group.set_client_request(++scene.last_request);
    group.set_detached(is_detached);
    group.add_bundles()->set_cpu_units(10'000);
    group.mutable_spawner()->set_lease(parent.lease().id());
    std::uint64_t id = 0;
    scene.core.submit_group(
        group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& placed) { id = must(placed).id(); }});
    return id;
  };
  const auto kept = group_of(true);
  const auto own = group_of(false);
  CHECK(kept != own);
  CHECK(scene.core.state({}).groups_size() == 2);
  CHECK(scene.core.state({}).actors(0).spawned_by().empty());
  scene.end(parent);
  CHECK(scene.actors() == Names{"detached"});
  REQUIRE(scene.core.state({}).groups_size() == 1);
  CHECK(scene.core.state({}).groups(0).id() == kept);
}

TEST_CASE("what a task has spawned ends with the task, or with its lease", "[broker][core]") {
  Family scene;
  const auto lease = scene.run_tasks();
  const auto first = scene.spawn(child_of(lease, "first", 1));
  const auto second = scene.spawn(child_of(lease, "second", 2));
  CHECK_FALSE(scene.is_told(first));
  scene.end_task(lease, 1);
  CHECK(scene.is_told(first));
  CHECK_FALSE(scene.is_told(second));
  scene.end(first);
  CHECK(scene.last_end() == "the task, which has spawned it, has ended");
  scene.end_task(lease, 1); // again: nothing is left
  v1::LeaseEnded ended;
  ended.set_lease(lease.id());
  ended.set_epoch(lease.epoch());
  scene.core.lease_ended(ended);
  CHECK(scene.is_told(second));
}

TEST_CASE("children end with a parent or a task whose node is lost", "[broker][core]") {
  Family scene;
  const auto other = scene.add_node("n1", 8);
  auto message = Scene::actor_of(1, "parent");
  message.mutable_spec()->set_max_restarts(0);
  message.mutable_request()->set_node("n1");
  const auto parent = scene.spawn(message);
  auto elsewhere = child_of(parent.lease(), "child");
  elsewhere.mutable_request()->set_node("n0");
  const auto child = scene.spawn(elsewhere);
  v1::AcquireLease tasks;
  tasks.set_client(1);
  tasks.set_client_request(++scene.last_request);
  tasks.mutable_request()->set_cpu_units(10'000);
  tasks.mutable_request()->set_node("n1");
  scene.core.acquire(tasks, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
  auto of_task = child_of(scene.world.runners.back().lease(), "of a task", 1);
  of_task.mutable_request()->set_node("n0");
  const auto second = scene.spawn(of_task);
  scene.core.peer_down(other);
  CHECK(scene.is_told(child));
  CHECK(scene.is_told(second));
}

TEST_CASE("children of a task whose device has failed end when its node is lost before it has ended",
          "[broker][core]") {
  Family scene;
  const auto other = scene.add_node("n1", 8, {}, 1);
  v1::AcquireLease tasks;
  tasks.set_client(1);
  tasks.set_client_request(++scene.last_request);
  tasks.mutable_request()->set_gpu_units(10'000);
  scene.core.acquire(tasks, {}, BrokerAnswer<Grant>{[](const Result<Grant>&) {}});
  auto of_task = child_of(scene.world.runners.back().lease(), "of a task", 1);
  of_task.mutable_request()->set_node("n0");
  const auto child = scene.spawn(of_task);
  scene.fail("n1", {0});
  CHECK_FALSE(scene.is_told(child));
  scene.core.peer_down(other);
  CHECK(scene.is_told(child));
}

TEST_CASE("nothing is spawned for a life that is over", "[broker][core]") {
  Family scene;
  const auto parent = scene.spawn(1, "parent", {}, 0);
  scene.end(parent);
  auto late = child_of(parent.lease(), "late");
  std::optional<Errc> refused;
  scene.ask_for(late, refused);
  CHECK(refused == Errc::unavailable);
  CHECK(scene.actors().empty());
}

TEST_CASE("a client cannot have what it spawns end with others' actors", "[broker][core]") {
  Family scene;
  scene.greet(3, Caller{"alice", false});
  const auto parent = scene.spawn(1, "parent", {}, 0);
  auto message = child_of(parent.lease(), "hers");
  message.set_client(3);
  const auto hers = scene.spawn(message, Caller{"alice", false});
  CHECK(scene.core.state({}).actors(1).spawned_by().empty());
  scene.end(parent);
  CHECK_FALSE(scene.is_told(hers));
}

TEST_CASE("the state says who has spawned an actor", "[broker][core]") {
  Family scene;
  const auto parent = scene.spawn(1, "parent");
  scene.spawn(child_of(parent.lease(), "child"));
  const auto state = scene.core.state({});
  CHECK(state.actors(0).spawned_by().empty());
  CHECK(state.actors(1).spawned_by() == "parent");
}

TEST_CASE("a broker that starts again ends the children of those who do not come back", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  BrokerOptions options;
  options.store = store;
  v1::StartActor parent;
  v1::StartActor child;
  {
    Family scene{options};
    auto message = Scene::actor_of(1, "parent");
    message.mutable_spec()->set_max_restarts(0);
    parent = scene.spawn(message);
    child = scene.spawn(child_of(parent.lease(), "child"));
    scene.core.finish();
  }
  options.settle = 5s;
  options.last_id = 1'000;
  const bool parent_returns = GENERATE(false, true);
  Scene again{options};
  again.greet(1);
  again.greet(2);
  std::vector<v1::HeldLease> held;
  for (const auto* order : {&parent, &child}) {
    if (order == &parent && !parent_returns)
      continue;
    held.push_back(begun(*order));
  }
  again.add_node(held);
  CHECK(again.world.ends.empty());
  again.run(10s);
  const bool is_told = std::any_of(again.world.ends.begin(), again.world.ends.end(),
                                   [&](const auto& end) { return end.lease() == child.lease().id(); });
  CHECK(is_told != parent_returns);
}
