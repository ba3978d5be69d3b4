// Types of tasks and actors: requests go only to nodes that have theirs.
#include <fmt/format.h>
#include <ledger/fixture.hpp>

namespace {

using namespace ledger_test;

NodeSpec with(const std::string& name, std::optional<std::vector<std::string>> types, int devices = 1) {
  auto node = node_of(name, devices);
  node.types = std::move(types);
  return node;
}

/// The request as one for a type.
ResourceRequest of(Fixture& f, const std::string& type, ResourceRequest request = gpus(0.5)) {
  request.type = f.ledger.type(type);
  return request;
}

/// What the queue says of why the only request in it waits.
std::string why(const Fixture& f) {
  const auto waiting = f.ledger.pending();
  REQUIRE(waiting.size() == 1);
  return waiting.front().reason;
}

const std::vector<std::string> few{"task a"};
const std::vector<std::string> more{"task b", "task a", "task b"};

} // namespace

TEST_CASE("a request goes only to nodes that have its type, although others have more room") {
  Fixture f({with("n0", few, 4), with("n1", more)});
  CHECK(place(f.submit(of(f, "task b"))) == "n1:0");
  CHECK(place(f.submit(of(f, "task b", memory(10)))) == "n1:0");
  auto spread = of(f, "task b", gpus(0.2));
  spread.strategy = Strategy::spread;
  CHECK(place(f.submit(spread)) == "n1:0");
  CHECK(place(f.submit(of(f, "task b", {}))) == "n1");
  // That another node is wished does not help.
  auto wish = of(f, "task b", gpus(0.1));
  wish.node = "n0";
  wish.node_is_soft = true;
  CHECK(place(f.submit(wish)) == "n1:0");
  CHECK(place(f.submit(of(f, "task a", gpus(1)))) == "n0:0");
  // What asks for no type goes anywhere.
  CHECK(place(f.submit(gpus(2))) == "n0:1,2");
}

TEST_CASE("a request whose type only busy nodes have waits for them, and says how many do not have it") {
  Fixture f({with("n0", few, 4), with("n1", more), with("n2", few)});
  const auto held = f.submit(of(f, "task b", gpus(1)));
  CHECK(f.submit(of(f, "task b", gpus(1))).kind == Kind::pending);
  CHECK(why(f) == "no node has 1 device free: node n1 has 0; 2 of 3 nodes do not have the type \"task b\"");
  // Others pass, and what others give back is nothing to it.
  const auto other = f.submit(gpus(4));
  CHECK(place(other) == "n0:0,1,2,3");
  CHECK(f.release(other).size() == 1);
  const auto events = f.release(held);
  REQUIRE(events.size() == 2);
  CHECK(place(events[1]) == "n1:0");
}

TEST_CASE("a request whose type no node has is not found, unless it waits for nodes") {
  Fixture f;
  auto alone = f.submit(of(f, "task b"));
  CHECK(place(alone) == "infeasible: no node is registered");
  CHECK(alone.code == Errc::infeasible);
  f.take(f.ledger.add_node(with("n0", few), f.now));
  auto refused = f.submit(of(f, "task b"));
  CHECK(refused.kind == Kind::infeasible);
  CHECK(refused.code == Errc::not_found);
  CHECK(refused.reason == "no node has the type \"task b\": 1 node is registered; did you mean \"task a\"?");
  f.take(f.ledger.add_node(with("n1", few), f.now));
  CHECK(f.submit(of(f, "actor model")).reason
        == "no node has the type \"actor model\": 2 nodes are registered; there is \"task a\"");
  auto waits = of(f, "task b");
  waits.wait_for_nodes = true;
  CHECK(f.submit(waits).kind == Kind::pending);
  CHECK(why(f)
        == "it waits for new nodes: no node has the type \"task b\": 2 nodes are registered; did you mean \"task "
           "a\"?");
  const auto events = f.take(f.ledger.add_node(with("n2", more), f.now));
  REQUIRE(events.size() == 1);
  CHECK(place(events[0]) == "n2:0");
}

TEST_CASE("a request that fits no node with its type is infeasible, and says how many nodes do not have it") {
  Fixture f({with("n0", few, 4), with("n1", more)});
  const auto refused = f.submit(of(f, "task b", gpus(2)));
  CHECK(refused.code == Errc::infeasible);
  CHECK(place(refused)
        == "infeasible: no node has 2 devices: node n1 has 1; 1 of 2 nodes does not have the type \"task b\"");
  auto named = of(f, "task b");
  named.node = "n0";
  CHECK(place(f.submit(named)) == "infeasible: node n0 does not have the type \"task b\"");
  CHECK(f.events.front().code == Errc::not_found);
  named.node = "n7";
  CHECK(f.submit(named).code == Errc::infeasible);
}

TEST_CASE("a node whose types are unknown counts as having all") {
  Fixture f({with("n0", few, 4), with("n1", std::nullopt)});
  CHECK(place(f.submit(of(f, "task b"))) == "n1:0");
  CHECK(f.submit(of(f, "task b", gpus(1))).kind == Kind::pending);
  CHECK(why(f) == "no node has 1 device free: node n1 has 0; 1 of 2 nodes does not have the type \"task b\"");
}

TEST_CASE("a node without any type gets what asks for none") {
  Fixture f({with("n0", std::vector<std::string>{})});
  CHECK(place(f.submit(of(f, "task a"))) == "infeasible: no node has the type \"task a\": 1 node is registered");
  CHECK(place(f.submit(gpus(1))) == "n0:0");
}

TEST_CASE("what waits for a type is answered when the last node that has it leaves") {
  Fixture f({with("n0", few), with("n1", more)});
  f.submit(of(f, "task b", gpus(1)));
  f.submit(of(f, "task b", gpus(1)));
  auto patient = of(f, "task b", gpus(1));
  patient.wait_for_nodes = true;
  f.submit(patient);
  const auto events = f.take(f.ledger.remove_node("n1", f.now));
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Kind::lost);
  CHECK(events[1].kind == Kind::infeasible);
  CHECK(events[1].code == Errc::not_found);
  CHECK(events[1].reason == "no node has the type \"task b\": 1 node is registered; did you mean \"task a\"?");
  CHECK(why(f).find("it waits for new nodes: no node has the type \"task b\"") == 0);
}

TEST_CASE("what only a drained node has the type for waits for it") {
  Fixture f({with("n0", few), with("n1", more)});
  f.take(f.ledger.drain_node("n1", f.now));
  CHECK(f.submit(of(f, "task b")).kind == Kind::pending);
  CHECK(why(f) == "every node that could serve it is being drained: n1");
  const auto events = f.take(f.ledger.undrain_node("n1", f.now));
  REQUIRE(events.size() == 1);
  CHECK(place(events[0]) == "n1:0");
}

TEST_CASE("while nodes are expected, a request for a type that none has waits") {
  Fixture f({with("n0", few)});
  CHECK(f.ledger.expect_nodes(true, f.now).empty());
  CHECK(f.submit(of(f, "task b")).kind == Kind::pending);
  const auto events = f.ledger.expect_nodes(false, f.now);
  REQUIRE(events.size() == 1);
  CHECK(events[0].code == Errc::not_found);
}

TEST_CASE("a request for a bundle on a node without its type says which node that is") {
  Fixture f({with("n0", few, 2), with("n1", more, 1)});
  REQUIRE(f.submit_group(GroupStrategy::strict_spread, {gpus(2), gpus(1)}).kind == Kind::granted);
  auto request = of(f, "task b", gpus(0.5));
  request.group = GroupId{1};
  CHECK(place(f.submit(request)) == "infeasible: bundle 0: node n0 does not have the type \"task b\"");
  CHECK(f.events.front().code == Errc::not_found);
  request.bundle = -1;
  CHECK(place(f.submit(request)) == "n1:0");
  request.gpus = Share::whole(2);
  CHECK(f.submit(request).code == Errc::infeasible);
  request.type = f.ledger.type("task c");
  CHECK(place(f.submit(request))
        == "infeasible: no bundle has room for it: bundle 0: node n0 does not have the type \"task c\"; did you mean "
           "\"task a\" or \"task b\"?");
  CHECK(f.events.front().code == Errc::not_found);
  auto bundle = of(f, "task b");
  CHECK(f.submit_group(GroupStrategy::pack, {bundle}).reason == "bundle 0: a bundle is for all types");
}

TEST_CASE("a child gets nothing of its parent's lease on a node without its type") {
  Fixture f({with("n0", few), with("n1", more)});
  const auto parent = f.submit(of(f, "task a", gpus(1)));
  REQUIRE(place(parent) == "n0:0");
  const auto other = f.submit(of(f, "task b", gpus(1)));
  auto child = of(f, "task b");
  child.parent = parent.lease->id;
  CHECK(f.submit(child).kind == Kind::pending);
  child.type = f.ledger.type("task a");
  CHECK(f.submit(child).lease->parent == parent.lease->id);
  const auto events = f.release(other);
  REQUIRE(events.size() == 2);
  CHECK(place(events[1]) == "n1:0");
  CHECK_FALSE(events[1].lease->parent);
}

TEST_CASE("a place is held back only on nodes with the type, and only what could have used it counts") {
  Fixture f({with("n0", few, 1), with("n1", more, 1)});
  const auto held = f.submit(of(f, "task b", gpus(0.5)));
  CHECK(f.submit(of(f, "task b", gpus(1))).kind == Kind::pending);
  // What others get on the other node has not passed it by.
  for (int i = 0; i < 40; ++i)
    f.release(f.submit(of(f, "task a", gpus(1))));
  CHECK(f.ledger.reservations().empty());
  f.advance(seconds{2});
  const auto reserved = f.ledger.reservations();
  REQUIRE(reserved.size() == 1);
  CHECK(reserved[0].places.at(0).node == "n1");
  CHECK(place(f.submit(of(f, "task a", gpus(0.5)))) == "n0:0");
  const auto events = f.release(held);
  REQUIRE(events.size() == 2);
  CHECK(place(events[1]) == "n1:0");
}

TEST_CASE("each node answers for itself whether it has the type") {
  Fixture f({with("n0", few), with("n1", more)});
  f.submit(of(f, "task b", gpus(1)));
  const auto verdicts = f.ledger.verdicts(of(f, "task b"));
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0] == NodeVerdict{"n0", -1, NodeVerdict::Kind::never, "does not have the type \"task b\""});
  CHECK(verdicts[1].kind == NodeVerdict::Kind::busy);
}

TEST_CASE("names of types that nobody needs are forgotten, those of nodes and waiting requests are not") {
  Fixture f({with("n0", few)});
  auto waits = of(f, "task waits");
  waits.wait_for_nodes = true;
  f.submit(waits);
  const auto first = f.ledger.type("task 0");
  const auto a = f.ledger.type("task a");
  for (int i = 0; i < 10'000; ++i)
    CHECK(f.submit(of(f, fmt::format("task {}", i))).code == Errc::not_found);
  CHECK(f.ledger.type_name(first).empty());
  // A number is never used for another name.
  CHECK(f.ledger.type("task 0") != first);
  CHECK(f.ledger.type("task a") == a);
  CHECK(why(f).find("\"task waits\"") != std::string::npos);
  CHECK(f.ledger.type_name(f.ledger.type("task waits")) == "task waits");
}

TEST_CASE("names of types that left with their nodes are forgotten") {
  Fixture f({with("n0", few)});
  const auto first = f.ledger.type("task a");
  TypeId gone;
  for (int i = 0; i < 2'000; ++i) {
    f.take(f.ledger.add_node(with("n1", std::vector<std::string>{fmt::format("task {}", i)}), f.now));
    gone = i == 0 ? f.ledger.type("task 0") : gone;
    f.take(f.ledger.remove_node("n1", f.now));
  }
  CHECK(f.ledger.type_name(gone).empty());
  CHECK(f.ledger.type_name(first) == "task a");
}

TEST_CASE("a node says at most so many types, and each with a name") {
  const auto error = [](std::vector<std::string> types) {
    return validate(with("n0", std::move(types))).error().message();
  };
  CHECK(error({""}) == "node n0 has a type with an empty name: give it one");
  CHECK(error({"task \n"}) == "the name of a type has a control character: use printable ones");
  CHECK(error(std::vector<std::string>(16'385, "task a")) == "node n0 has 16385 types: at most 16384 are allowed");
}

TEST_CASE("in a large cluster the reason of what waits is that of the nodes with its type") {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 100; ++i)
    nodes.push_back(with(fmt::format("n{:03}", i), i == 70 ? more : few, 2));
  Fixture f(std::move(nodes));
  CHECK(place(f.submit(of(f, "task b", gpus(2)))) == "n070:0,1");
  CHECK(f.submit(of(f, "task b")).kind == Kind::pending);
  CHECK(
      why(f)
      == "no node has 0.5 of a device free: the most on one device is 0, on node n070; 99 of 100 nodes do not have the "
         "type \"task b\"");
}

TEST_CASE("when a node gets another type, what waits for it is served") {
  Fixture f({with("n0", few), with("n1", few)});
  auto patient = of(f, "task b", gpus(1));
  patient.wait_for_nodes = true;
  CHECK(f.submit(patient).kind == Kind::pending);
  const auto held = f.submit(of(f, "task a", gpus(1)));
  CHECK(f.take(f.ledger.set_types("n0", few, f.now)).empty());
  // The node has no room yet; leases stay, whatever their types.
  CHECK(f.take(f.ledger.set_types("n0", std::vector<std::string>{"task b"}, f.now)).empty());
  CHECK(why(f) == "no node has 1 device free: node n0 has 0; 1 of 2 nodes does not have the type \"task b\"");
  const auto events = f.release(held);
  REQUIRE(events.size() == 2);
  CHECK(place(events[1]) == "n0:0");
  CHECK(f.take(f.ledger.set_types("n1", std::nullopt, f.now)).empty());
  CHECK(place(f.submit(of(f, "task b", gpus(1)))) == "n1:0");
}

TEST_CASE("when the last node with a type loses it, what waits for it is refused unless it waits for nodes") {
  Fixture f({with("n0", more), with("n1", few)});
  f.submit(of(f, "task b", gpus(1)));
  CHECK(f.submit(of(f, "task b", gpus(1))).kind == Kind::pending);
  const auto events = f.take(f.ledger.set_types("n0", few, f.now));
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == Kind::infeasible);
  CHECK(events[0].code == Errc::not_found);
  auto patient = of(f, "task b", gpus(1));
  patient.wait_for_nodes = true;
  CHECK(f.submit(patient).kind == Kind::pending);
  CHECK(f.ledger.set_types("n9", few, f.now).error().code() == Errc::not_found);
  CHECK(f.ledger.set_types("n0", std::vector<std::string>{""}, f.now).error().code() == Errc::invalid_argument);
}

TEST_CASE("what waits in a bundle is served when the bundle's node gets its type") {
  Fixture f({with("n0", few)});
  REQUIRE(f.submit_group(GroupStrategy::pack, {gpus(1)}).kind == Kind::granted);
  auto request = of(f, "task b", gpus(0.5));
  request.group = GroupId{1};
  request.wait_for_nodes = true;
  CHECK(f.submit(request).kind == Kind::pending);
  const auto events = f.take(f.ledger.set_types("n0", more, f.now));
  REQUIRE(events.size() == 1);
  CHECK(place(events[0]) == "n0:0");
}
