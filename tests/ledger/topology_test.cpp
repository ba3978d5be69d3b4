// Requests of several devices take those that are close to each other.
#include <gpuactors/ledger/topology.hpp>

#include <ledger/fixture.hpp>

using namespace ledger_test;
using ledger_detail::Topology;

namespace {

// Devices in islands of `size`: 1 within an island, 4 across.
NodeSpec islands(const std::string& name, int devices, int size) {
  auto node = node_of(name, devices);
  for (int a = 0; a < devices; ++a) {
    auto& row = node.distances.emplace_back();
    for (int b = 0; b < devices; ++b)
      row.push_back(a == b ? 0 : a / size == b / size ? 1 : 4);
  }
  return node;
}

std::string why_not(NodeSpec node) {
  const auto valid = validate(node);
  return valid ? "" : valid.error().message();
}

} // namespace

TEST_CASE("several devices are taken where they are closest, ties by index") {
  Fixture f({islands("n0", 8, 4)});
  const auto first = f.submit(gpus(1));
  CHECK(place(first) == "n0:0");
  // Three are left in the first island, four in the second.
  CHECK(place(f.submit(gpus(4))) == "n0:4,5,6,7");
  CHECK(place(f.submit(gpus(2))) == "n0:1,2");
  f.release(first);
  CHECK(place(f.submit(gpus(2))) == "n0:0,3");
}

TEST_CASE("devices of one NUMA node count as close when no distances are reported") {
  auto node = node_of("n0", 6);
  for (std::size_t i = 0; i < 6; ++i)
    node.devices[i].numa_node = static_cast<int>(i % 2);
  Fixture f({node});
  CHECK(place(f.submit(gpus(3))) == "n0:0,2,4");
  CHECK(place(f.submit(gpus(2))) == "n0:1,3");
}

TEST_CASE("a node is chosen without regard to distances") {
  // The second node has the closer pair, the first one fewer idle devices.
  Fixture f({islands("n0", 2, 1), islands("n1", 4, 2)});
  CHECK(place(f.submit(gpus(2))) == "n0:0,1");
  CHECK(place(f.submit(gpus(2))) == "n1:0,1");
}

TEST_CASE("a bundle of several devices takes close ones too, and so does a request in it") {
  Fixture f({islands("n0", 8, 4)});
  f.submit(gpus(1));
  const auto group = f.submit_group(GroupStrategy::pack, {gpus(4)});
  REQUIRE(group.bundles.size() == 1);
  CHECK(group.bundles[0].devices.front().index == 4);
  auto node = islands("n1", 4, 2);
  node.distances = {{0, 9, 9, 1}, {9, 0, 9, 9}, {9, 9, 0, 9}, {1, 9, 9, 0}};
  Fixture g({node});
  g.submit_group(GroupStrategy::pack, {gpus(4)});
  auto request = gpus(2);
  request.group = GroupId{1};
  CHECK(place(g.submit(request)) == "n1:0,3");
}

TEST_CASE("among many devices a close set is found without trying all") {
  const Topology topology{islands("n0", 256, 8)};
  std::vector<int> devices;
  // The first island lacks one device, so that no set of eight is there whole before the second.
  for (int i = 1; i < 256; ++i)
    devices.push_back(i);
  const auto chosen = topology.closest(devices, 8);
  REQUIRE(chosen.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(devices[chosen[i]] == static_cast<int>(8 + i));
  // As many as two islands, of which one is the rest of the first.
  CHECK(topology.closest(devices, 128).size() == 128);
}

TEST_CASE("distances that make no sense are refused with their place") {
  auto node = islands("n0", 2, 2);
  CHECK(why_not(node).empty());
  node.distances[0][1] = 3;
  CHECK(why_not(node) == "node n0: distances[0][1] is 3 and [1][0] is 1: both ways must be equal");
  node.distances[0][0] = 1;
  CHECK(why_not(node) == "node n0: distances[0][0] is 1: a device is 0 from itself");
  node.distances[0][0] = -1;
  CHECK(why_not(node) == "node n0: distances[0][0] is -1: 0 to 1000 is allowed");
  node.distances[1].pop_back();
  CHECK(why_not(node) == "node n0: distances[1] has 1 numbers for 2 devices: one for each is needed");
  node.distances.pop_back();
  CHECK(why_not(node) == "node n0: distances has 1 rows for 2 devices: one for each is needed");
  node.distances.clear();
  node.devices[0].numa_node = -2;
  CHECK(why_not(node) == "numa_node is -2: a NUMA node counts from 0, and -1 is unknown");
}
