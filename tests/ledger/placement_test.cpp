#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/limits.hpp>

#include <ledger/fixture.hpp>

using namespace ledger_test;

TEST_CASE("three actors of 0.5 on two devices land on 0, 0, 1") {
  Fixture f({node_of("n0", 2)});
  CHECK(place(f.submit(gpus(0.5))) == "n0:0");
  CHECK(place(f.submit(gpus(0.5))) == "n0:0");
  CHECK(place(f.submit(gpus(0.5))) == "n0:1");
}

TEST_CASE("host memory is counted to the byte, in petabytes too") {
  const std::string name{host_memory_resource};
  std::vector<NodeSpec> nodes;
  for (const auto* node : {"n0", "n1", "n2"}) {
    nodes.push_back(node_of(node, 1));
    nodes.back().resources[name] = host_memory_amount(limits::host_memory_bytes);
  }
  Fixture f(nodes);
  const auto asks = [&](std::uint64_t bytes, const std::string& node = {}) {
    ResourceRequest request;
    request.resources[name] = host_memory_amount(bytes);
    request.node = node;
    return request;
  };
  const auto group = f.submit_group(GroupStrategy::strict_spread,
                                    {asks(limits::host_memory_bytes), asks(limits::host_memory_bytes - 1, "n1")});
  REQUIRE(group.kind == Kind::granted);
  CHECK(f.submit(asks(limits::host_memory_bytes)).kind == Kind::granted);
  const auto waits = f.submit(asks(2));
  CHECK(waits.kind == Kind::pending);
  CHECK(waits.reason == "no node has 2 bytes (2 B) of host memory free: node n1 has 1 bytes (1 B)");
  CHECK(f.submit(asks(1)).lease->node == "n1");
  CHECK(f.submit(gpus(0.5)).kind == Kind::granted); // asks for none
}

TEST_CASE("ten actors of 0.6 on two nodes of eight devices all run") {
  Fixture f({node_of("n0", 8), node_of("n1", 8)});
  for (int i = 0; i < 16; ++i)
    CHECK(f.submit(gpus(0.6)).kind == Kind::granted);
  CHECK(f.submit(gpus(0.6)).kind == Kind::pending);
}

TEST_CASE("0.1, 0.9 and 0.9 fill two devices but for 0.1, exactly") {
  Fixture f({node_of("n0", 2)});
  CHECK(place(f.submit(gpus(0.1))) == "n0:0");
  CHECK(place(f.submit(gpus(0.9))) == "n0:0");
  CHECK(place(f.submit(gpus(0.9))) == "n0:1");
  CHECK(place(f.submit(gpus(0.1))) == "n0:1");
  const auto node = f.ledger.node("n0");
  for (const auto& device : node->devices)
    CHECK(device.free_share == Share{});
}

TEST_CASE("0.57 and 0.43 are exactly one device, and so are 10000 times 0.0001") {
  Fixture f({node_of("n0", 1, 1'000'000)});
  const auto a = f.submit(gpus(0.57));
  CHECK(f.submit(gpus(0.43)).kind == Kind::granted);
  CHECK(f.submit(gpus(0.0001)).kind == Kind::pending);
  f.release(a);
  Fixture g({node_of("n0", 1, 1'000'000)});
  for (int i = 0; i < 10'000; ++i)
    REQUIRE(g.ledger.submit(RequestId{static_cast<std::uint64_t>(i + 1)}, gpus(0.0001), g.now).front().kind
            == Kind::granted);
  CHECK(g.ledger.node("n0")->devices.front().free_share == Share{});
}

TEST_CASE("an exclusive device is never shared, whichever came first") {
  Fixture f({node_of("n0", 1)});
  const auto whole = f.submit(gpus(1));
  CHECK(f.submit(gpus(0.25)).kind == Kind::pending);
  const auto events = f.release(whole);
  CHECK(events.back().kind == Kind::granted);
  CHECK(f.submit(gpus(1)).kind == Kind::pending);
}

TEST_CASE("a fraction never straddles devices") {
  Fixture f({node_of("n0", 2)});
  f.submit(gpus(0.6));
  f.submit(gpus(0.6));
  CHECK(f.submit(gpus(0.5)).kind == Kind::pending);
}

TEST_CASE("gpus alone bring their part of the memory, rounded down") {
  Fixture f({node_of("n0", 1, 1001)});
  const auto event = f.submit(gpus(0.5));
  CHECK(event.lease->devices == std::vector{DeviceGrant{0, Share{5000}, 500}});
}

TEST_CASE("memory alone takes the least share that covers it, on the device chosen") {
  Fixture f({node_of("a", 1, 80), node_of("b", 1, 40)});
  // Less is left of the smaller device.
  const auto small = f.submit(memory(10));
  CHECK(small.lease->node == "b");
  CHECK(small.lease->devices == std::vector{DeviceGrant{0, Share{2500}, 10}});
  const auto large = f.submit(memory(41));
  CHECK(large.lease->node == "a");
  CHECK(large.lease->devices == std::vector{DeviceGrant{0, Share{5125}, 41}});
  CHECK(place(f.submit(memory(81)))
        == "infeasible: no node has 81 bytes (81 B) on one device: the most is 80 bytes (80 B), on node a");
}

TEST_CASE("gpus and memory are given as asked, and both are counted") {
  Fixture f({node_of("n0", 1, 16)});
  const auto event = f.submit(gpus(0.1, 12));
  CHECK(event.lease->devices == std::vector{DeviceGrant{0, Share{1000}, 12}});
  // 0.9 is free, but not its memory.
  CHECK(place(f.submit(gpus(0.5)))
        == "pending: no node has 8 bytes (8 B) on one device free: the most is 4 bytes (4 B), on node n0");
  CHECK(f.submit(gpus(0.5, 4)).kind == Kind::granted);
}

TEST_CASE("a third service of 6 GiB waits on a device of 16 GiB") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  Fixture f({node_of("n0", 1, 16 * gib)});
  const auto first = f.submit(memory(6 * gib));
  CHECK(first.lease->devices.front().share == Share{3750});
  f.submit(memory(6 * gib));
  const auto third = f.submit(memory(6 * gib));
  CHECK(third.kind == Kind::pending);
  CHECK(f.release(first).back().request == third.request);
}

TEST_CASE("whole devices are distinct, of one node, with all their share and the memory asked") {
  Fixture f({node_of("n0", 3, 100)});
  const auto two = f.submit(gpus(2));
  CHECK(two.lease->devices == std::vector{DeviceGrant{0, Share::whole(1), 100}, DeviceGrant{1, Share::whole(1), 100}});
  const auto one = f.submit(gpus(1, 70));
  CHECK(one.lease->devices == std::vector{DeviceGrant{2, Share::whole(1), 70}});
  CHECK(
      place(f.submit(gpus(2, 101))).find("infeasible: no node has 2 devices with 101 bytes (101 B) each: node n0 has 0")
      == 0);
}

TEST_CASE("devices in use are filled before idle ones, the tightest first") {
  Fixture f({node_of("n0", 3)});
  f.submit(gpus(0.5));
  f.submit(gpus(0.7));
  CHECK(place(f.submit(gpus(0.3))) == "n0:1");
  CHECK(place(f.submit(gpus(0.2))) == "n0:0");
  CHECK(place(f.submit(gpus(1))) == "n0:2");
}

TEST_CASE("whole requests go to the node with the fewest idle devices that are enough") {
  Fixture f({node_of("a", 4), node_of("b", 2), node_of("c", 1)});
  CHECK(place(f.submit(gpus(2))) == "b:0,1");
  CHECK(place(f.submit(gpus(1))) == "c:0");
  CHECK(place(f.submit(gpus(3))) == "a:0,1,2");
}

TEST_CASE("SPREAD takes the node, then the device, with the most free") {
  Fixture f({node_of("n0", 2), node_of("n1", 2)});
  auto half = gpus(0.5);
  half.strategy = Strategy::spread;
  CHECK(place(f.submit(half)) == "n0:0");
  CHECK(place(f.submit(half)) == "n1:0");
  CHECK(place(f.submit(half)) == "n0:1");
  CHECK(place(f.submit(half)) == "n1:1");
  CHECK(place(f.submit(half)) == "n0:0");
}

TEST_CASE("accelerator type, node, labels, cpus and custom resources restrict the choice") {
  auto gpu_node = node_of("gpu", 1, 100, "H100");
  gpu_node.labels["zone"] = "a";
  auto other = node_of("v", 1, 100, "V100");
  other.labels["zone"] = "b";
  other.resources["neuron_cores"] = Share::whole(2);
  other.cpus = Share::whole(2);
  Fixture f({gpu_node, other});
  auto request = gpus(0.1);
  request.accelerator_type = "V100";
  CHECK(place(f.submit(request)) == "v:0");
  request = gpus(0.1);
  request.node = "v";
  CHECK(place(f.submit(request)) == "v:0");
  request = gpus(0.1);
  request.labels["zone"] = "b";
  CHECK(place(f.submit(request)) == "v:0");
  request = gpus(0.1);
  request.resources["neuron_cores"] = Share::whole(1);
  CHECK(place(f.submit(request)) == "v:0");
  CHECK(place(f.submit(request)) == "v:0");
  CHECK(place(f.submit(request)) == "pending: no node with 0.1 of a device has 1 neuron_cores free: node gpu has 0");
  request = {};
  request.accelerator_type = "H100";
  CHECK(place(f.submit(request)) == "gpu");
}

TEST_CASE("what needs no device keeps off the nodes that have some") {
  Fixture f({node_of("a", 1), node_of("b", 0)});
  ResourceRequest request;
  request.cpus = Share::whole(10);
  CHECK(place(f.submit(request)) == "b");
  CHECK(place(f.submit(request)) == "a");
  CHECK(place(f.submit(request)) == "pending: no node has 10 cpus free: node a has 6");
}

TEST_CASE("infeasible is answered at once and names the constraint and what the best node has") {
  Fixture f({node_of("n0", 2, 100, "V100"), node_of("n1", 8, 100, "H100")});
  auto request = gpus(3);
  request.accelerator_type = "V100";
  CHECK(place(f.submit(request)) == "infeasible: no node has 3 devices of type V100: node n0 has 2");
  CHECK(f.events.front().code == Errc::infeasible);
  CHECK(place(f.submit(gpus(9))) == "infeasible: no node has 9 devices: node n1 has 8");
  request = gpus(0.5);
  request.accelerator_type = "A100";
  CHECK(place(f.submit(request)) == "infeasible: no node has 0.5 of a device of type A100: node n1 has H100");
  request = gpus(0.5);
  request.node = "n2";
  CHECK(place(f.submit(request)) == "infeasible: no node is named \"n2\"; did you mean \"n0\" or \"n1\"?");
  request = gpus(3);
  request.node = "n0";
  CHECK(place(f.submit(request)) == "infeasible: no node of that name has 3 devices: node n0 has 2");
  request = gpus(1);
  request.cpus = Share::whole(17);
  CHECK(place(f.submit(request)) == "infeasible: no node with 1 device has 17 cpus: node n0 has 16");
  request = gpus(1);
  request.labels["zone"] = "a";
  CHECK(place(f.submit(request)) == "infeasible: no node has the labels: on node n0 there is no label zone, asked: a");
  CHECK(place(Fixture{}.submit(gpus(1))) == "infeasible: no node is registered");
}

TEST_CASE("names that arrive in any order are ties broken by name") {
  Fixture f({node_of("m", 1), node_of("z", 1), node_of("a", 1), node_of("b", 1), node_of("aa", 1)});
  for (const auto* name : {"a:0", "aa:0", "b:0", "m:0", "z:0"})
    CHECK(place(f.submit(gpus(1))) == name);
  // Far more names between two others than there are halves of a number.
  Fixture g({node_of("a", 1), node_of("b", 1)});
  std::string name = "a";
  for (int i = 0; i < 100; ++i) {
    name += 'x';
    REQUIRE(g.ledger.add_node(node_of(name, 1), g.now));
  }
  for (int i = 0; i < 50; ++i) {
    name = "az" + std::string(static_cast<std::size_t>(50 - i), 'a');
    REQUIRE(g.ledger.add_node(node_of(name, 1), g.now));
  }
  std::string last;
  for (int i = 0; i < 152; ++i) {
    const auto event = g.submit(gpus(1));
    CHECK(last < event.lease->node);
    last = event.lease->node;
  }
}

TEST_CASE("on a large cluster, too, a pending request is told what the best node has") {
  std::vector<NodeSpec> nodes;
  for (int i = 100; i < 200; ++i)
    nodes.push_back(node_of("n" + std::to_string(i), 2));
  Fixture f(nodes);
  for (int i = 0; i < 199; ++i)
    CHECK(f.submit(gpus(1)).kind == Kind::granted);
  CHECK(f.submit(gpus(2)).reason == "no node has 2 devices free: node n199 has 1");
  f.submit(gpus(0.4));
  CHECK(f.submit(gpus(0.7)).reason == "no node has 0.7 of a device free: the most on one device is 0.6, on node n199");
  f.submit(gpus(0.6));
  CHECK(f.submit(gpus(1)).reason == "no node has 1 device free: node n100 has 0");
}

TEST_CASE("the bytes that are short are those of the type that was asked for") {
  auto node = node_of("n0", 2, 10, "A");
  node.devices[1] = {"B", 80, ""};
  Fixture f({node});
  auto held = gpus(0.25, 60);
  held.accelerator_type = "B";
  f.submit(held);
  auto wanted = gpus(0.5);
  wanted.accelerator_type = "B";
  CHECK(f.submit(wanted).reason
        == "no node has 40 bytes (40 B) on one device of type B free: the most is 20 bytes (20 B), on node n0");
}
