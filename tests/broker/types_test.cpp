// The broker's core alone: nodes that have different types of tasks and actors.
#include <gpuactors/plan/plan.hpp>

#include <broker/memory_store.hpp>
#include <broker/types_scene.hpp>
#include <fmt/format.h>

#include <sstream>

using namespace broker_test;

TEST_CASE("tasks and actors are placed on nodes that have their types", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  scene.add("n1", 2, scene.full);
  for (int i = 0; i < 3; ++i)
    scene.acquire("acme.blur");
  REQUIRE(scene.world.runners.size() == 3);
  for (const auto& order : scene.world.runners)
    CHECK(order.lease().node() == "n1");
  CHECK(scene.spawn(TypesScene::actor("acme.model", "a")).lease().node() == "n1");
  // A task and an actor of one name are two types.
  CHECK((*scene.acquire("counter"))->code() == Errc::not_found);
  scene.acquire("echo", 80'000);
  REQUIRE(scene.world.runners.size() == 4);
  CHECK(scene.world.runners.back().lease().node() == "n0");
}

TEST_CASE("a type that no node has is not found, and one whose nodes are busy is waited for", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  const auto missing = scene.acquire("acme.blurr");
  CHECK((*missing)->code() == Errc::not_found);
  CHECK(scene.spawn_error(TypesScene::actor("acme.model", "a"))->value()
        == Error{Errc::not_found,
                 "no node has the type \"actor acme.model\": 1 node is registered; there is \"actor counter\", \"task "
                 "echo\""});
  const auto peer = scene.add("n1", 2, scene.full);
  scene.acquire("acme.blur", 100'000);
  const auto waiting = scene.acquire("acme.blur", 50'000);
  CHECK_FALSE(waiting->has_value());
  CHECK(scene.queue_reason()
        == "no node has 5 cpus free: node n1 has 0; 1 of 2 nodes does not have the type \"task acme.blur\"");
  scene.core.peer_down(peer);
  CHECK(waiting->value()
        == Error{Errc::not_found,
                 "no node has the type \"task acme.blur\": 1 node is registered; there is \"actor counter\", \"task "
                 "echo\""});
}

TEST_CASE("what is no name of a type is refused", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  CHECK(scene.acquire("a b")->value()
        == Error{Errc::invalid_argument, "\"a b\" is no name for a type: 1 to 128 letters, digits, _ - . /"});
  CHECK((*scene.spawn_error(TypesScene::actor("a\nb", "a")))->code() == Errc::invalid_argument);
}

TEST_CASE("a client that names no task, and a node that names no types, are as before", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  scene.acquire("", 90'000);
  REQUIRE(scene.world.runners.size() == 1);
  scene.add("n1", 2, std::nullopt);
  scene.acquire("acme.blur", 90'000);
  REQUIRE(scene.world.runners.size() == 2);
  CHECK(scene.world.runners.back().lease().node() == "n1");
}

TEST_CASE("an actor is restarted only on a node that has its type, and waits for one", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  const auto peer = scene.add("n1", 2, scene.full);
  scene.spawn(TypesScene::actor("acme.model", "a"));
  scene.core.peer_down(peer);
  scene.run(60s);
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.queue_reason().find("it waits for new nodes: no node has the type \"actor acme.model\"") == 0);
  // Under its old name, but with another program.
  const auto other = scene.add("n1", 3, scene.plain);
  CHECK(scene.world.starts.size() == 1);
  scene.core.peer_down(other);
  scene.add("n2", 4, scene.full);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n2");
}

TEST_CASE("an actor of a node that is emptied moves only to one that has its type", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  scene.add("n1", 2, scene.full);
  const auto first = scene.spawn(TypesScene::actor("acme.model", "a"));
  scene.drain("n1", 60s);
  scene.run(5s);
  CHECK(scene.world.ends.empty());
  scene.add("n2", 3, scene.full);
  scene.run(5s);
  REQUIRE(scene.world.ends.size() == 1);
  scene.end(first);
  REQUIRE(scene.world.starts.size() == 2);
  CHECK(scene.world.starts.back().lease().node() == "n2");
}

TEST_CASE("what goes into a bundle on a node without its type is told which node that is", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  const auto group = scene.add_group();
  scene.add("n1", 2, scene.full);
  CHECK(scene.acquire("acme.blur", 1'000, group)->value()
        == Error{Errc::not_found, "bundle 0: node n0 does not have the type \"task acme.blur\""});
  auto member = TypesScene::actor("acme.model", "a");
  member.mutable_request()->set_cpu_units(1'000);
  member.mutable_request()->set_group(group);
  CHECK(scene.spawn_error(member)->value()
        == Error{Errc::not_found, "bundle 0: node n0 does not have the type \"actor acme.model\""});
}

TEST_CASE("a broker that was started again waits for nodes that may have the type", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    TypesScene earlier{{.store = store}};
    earlier.add("n1", 2, earlier.full);
    order = earlier.spawn(TypesScene::actor("acme.model", "a"));
    earlier.core.finish();
  }
  TypesScene scene{{.last_id = order.lease().id() + (1U << 20), .settle = 5s, .store = store}};
  scene.add("n0", 1, scene.plain);
  const auto waiting = scene.acquire("acme.blur");
  const auto missing = scene.acquire("acme.blurr");
  CHECK_FALSE(waiting->has_value());
  CHECK_FALSE(missing->has_value());
  // Of types that a node may still bring, it is not told before.
  int answers = 0;
  const auto ask = [&](const std::string& wanted) {
    v1::GetTypes message;
    message.set_wanted(wanted);
    scene.core.types(message, BrokerCore::TypesAnswer{[&](const Result<v1::TypeCatalog>&) { ++answers; }});
  };
  ask("");
  ask("echo");
  CHECK(answers == 2);
  ask("acme.blur");
  CHECK(answers == 2);
  scene.add("n1", 3, scene.full);
  CHECK(answers == 3);
  REQUIRE(scene.world.runners.size() == 1);
  CHECK(scene.world.runners.back().lease().node() == "n1");
  scene.run(6s);
  CHECK((*missing)->code() == Errc::not_found);
  // The stored actor, whose node has come back without it, lives again where its type is.
  REQUIRE(scene.world.starts.size() == 1);
  CHECK(scene.world.starts.back().lease().node() == "n1");
}

TEST_CASE("the broker tells which nodes have a type if others do not", "[broker][core]") {
  TypesScene scene;
  v1::TypeCatalog told;
  const auto ask = [&] {
    scene.core.types({}, BrokerCore::TypesAnswer{[&](const Result<v1::TypeCatalog>& types) { told = must(types); }});
  };
  scene.add("n0", 1, scene.full);
  ask();
  REQUIRE(told.tasks_size() == 2);
  for (const auto& task : told.tasks())
    CHECK(task.node_count() == 0);
  for (int i = 1; i <= 20; ++i)
    scene.add(fmt::format("n{:02}", i), 10 + static_cast<std::uint64_t>(i), i % 2 == 0 ? scene.full : scene.plain);
  ask();
  for (const auto& task : told.tasks())
    CHECK(task.node_count() == (task.name() == "echo" ? 0 : 11));
  for (const auto& actor : told.actors()) {
    CHECK(actor.node_count() == (actor.name() == "counter" ? 0 : 11));
    if (actor.name() == "acme.model") {
      REQUIRE(actor.nodes_size() == 8);
      CHECK(actor.nodes(0) == "n0");
      CHECK(actor.nodes(1) == "n02");
    }
  }
}

TEST_CASE("leases for tasks on a node whose programs change are called in", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  scene.add("n1", 2, scene.plain);
  scene.acquire("echo", 60'000);
  scene.acquire("echo", 60'000);
  REQUIRE(scene.world.runners.size() == 2);
  scene.renew("n1", 2, 1, scene.plain);
  REQUIRE(scene.world.reclaims.size() == 1);
  CHECK(scene.world.reclaims[0].lease() == scene.world.runners[1].lease().id());
}

TEST_CASE("when a node's programs change, what waits is placed by their types, or not found", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  scene.acquire("echo", 60'000);
  const auto patient = scene.spawn_error([&] {
    auto message = TypesScene::actor("acme.model", "a");
    message.mutable_request()->set_wait_for_nodes(true);
    return message;
  }());
  const auto waiting = scene.acquire("echo", 60'000);
  CHECK_FALSE(waiting->has_value());
  v1::NodePrograms message;
  message.set_node("n0");
  message.set_agent(1);
  message.set_programs(1);
  *message.mutable_types() = catalog({}, {"acme.model"});
  scene.core.programs_changed(message);
  CHECK((*waiting)->code() == Errc::not_found);
  REQUIRE(scene.world.starts.size() == 1);
  CHECK(scene.world.starts[0].spec().type() == "acme.model");
  CHECK(scene.count("node_renewed") == 1);
  // The same once more, from another agent, or from one of another number, is no news.
  scene.core.programs_changed(message);
  message.set_programs(2);
  message.set_agent(7);
  scene.core.programs_changed(message);
  CHECK(scene.count("node_renewed") == 1);
}

TEST_CASE("a node that comes back with other programs loses nothing that is granted there at once", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  auto message = TypesScene::actor("acme.model", "a");
  message.mutable_request()->set_wait_for_nodes(true);
  const auto error = scene.spawn_error(message);
  v1::RegisterNode again; // over another connection, before the end of the first one is noticed
  again.mutable_node()->set_name("n0");
  again.mutable_node()->set_cpu_units(100'000);
  again.set_agent(1);
  again.set_programs(1);
  *again.mutable_types() = scene.full;
  scene.core.add_node(again, std::make_shared<Somebody>(),
                      BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
  CHECK_FALSE(error->has_value());
  CHECK(scene.world.starts.size() == 1);
  CHECK(scene.count("died") == 0);
}

TEST_CASE("a broker that was started again calls in what tasks hold in earlier programs", "[broker][core]") {
  TypesScene scene{{.last_id = 1'000, .settle = 5s}};
  v1::Hello hello;
  hello.set_client(1);
  hello.add_leases(7);
  hello.add_leases(8);
  must(scene.core.hello(hello, {}, std::make_shared<Somebody>()));
  std::vector<v1::HeldLease> held(2);
  for (auto& one : held) {
    one.mutable_lease()->set_id(&one == &held.front() ? 7 : 8);
    one.mutable_lease()->set_request(one.lease().id());
    one.mutable_lease()->set_epoch(1);
    one.mutable_lease()->set_node("n0");
    one.mutable_lease()->set_cpu_units(10'000);
    one.set_client(1);
  }
  held.front().set_retired(true);
  scene.add("n0", 1, scene.plain, held);
  scene.run(6s);
  REQUIRE(scene.world.reclaims.size() == 1);
  CHECK(scene.world.reclaims[0].lease() == 7);
}

TEST_CASE("a node whose programs do not say their types any more takes all", "[broker][core]") {
  TypesScene scene;
  scene.add("n0", 1, scene.plain);
  CHECK((*scene.acquire("acme.blur"))->code() == Errc::not_found);
  v1::NodePrograms message;
  message.set_node("n0");
  message.set_agent(1);
  message.set_programs(1);
  scene.core.programs_changed(message);
  CHECK_FALSE(scene.acquire("acme.blur")->has_value());
}

TEST_CASE("a recorded run with types is repeated grant by grant", "[broker][core]") {
  const auto recording = std::make_shared<std::stringstream>();
  std::vector<std::string> granted;
  {
    TypesScene scene{{.recording = recording}};
    scene.add("n0", 1, scene.plain);
    scene.add("n1", 2, scene.full);
    for (const auto* type : {"acme.blur", "echo", "acme.blurr", "acme.blur"})
      scene.acquire(type, 60'000);
    scene.renew("n0", 1, 1, scene.full);
    scene.acquire("acme.blur", 30'000);
    for (const auto& order : scene.world.runners)
      granted.push_back(order.lease().node());
  }
  std::ostringstream out;
  must(run_plan(*recording, out));
  std::vector<std::string> planned;
  std::istringstream lines{out.str()};
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find("\"node\":\""); line.find("\"granted\"") != std::string::npos)
      planned.push_back(line.substr(at + 8, 2));
  CHECK(granted.size() == 3);
  CHECK(planned == granted);
  CHECK(out.str().find("no node has the type \\\"task acme.blurr\\\"") != std::string::npos);
}
