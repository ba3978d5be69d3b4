// What a worker learns of its devices from its node's message.
#include <gpuactors/cluster/detail/device_messages.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <map>
#include <string>

namespace {

using namespace gpuactors;
using namespace gpuactors::detail;

DeviceInfo a_gpu() {
  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.index = 3;
  info.ordinal = 1;
  info.name = "NVIDIA H200";
  info.accelerator_type = "H200";
  info.uuid = "GPU-1";
  info.memory_bytes = 140ULL << 30;
  info.units = 132;
  info.numa_node = 1;
  return info;
}

TEST_CASE("a device is the same to its worker and to its node, but for the ordinal") {
  auto expected = a_gpu();
  expected.ordinal = expected.index;
  const auto received = from_wire(to_wire(a_gpu()));
  REQUIRE(received);
  CHECK(*received == expected);
}

TEST_CASE("a device on no known NUMA node is on none to its worker either") {
  auto device = a_gpu();
  device.numa_node = -1;
  const auto received = from_wire(to_wire(device));
  REQUIRE(received);
  CHECK(received->numa_node == -1);
}

TEST_CASE("a device of a kind that this release does not know is refused by name") {
  auto message = to_wire(a_gpu());
  message.set_kind("quantum");
  const auto received = from_wire(message);
  REQUIRE(!received);
  CHECK(received.error().code() == Errc::invalid_argument);
  CHECK_THAT(received.error().message(), Catch::Contains("device 3") && Catch::Contains("quantum"));
}

TEST_CASE("a node has all that its programs say of their devices, and what it offers itself") {
  v1::Node seen;
  *seen.add_devices() = to_wire(a_gpu());
  *seen.add_devices() = to_wire(a_gpu());
  for (const int distance : {0, 2, 2, 0})
    seen.add_distances(distance);
  const std::string name{"n0"};
  const std::map<std::string, std::string> labels{{"zone", "a"}};
  const std::map<std::string, double> resources{{"fpga", 1}};
  const std::string root{"/"};
  const auto node = test::must(describe_node({name, labels, 2, resources, 0, root}, seen));
  CHECK(node.devices_size() == 2);
  CHECK(node.devices(1).uuid() == "GPU-1");
  CHECK(std::vector<int>(node.distances().begin(), node.distances().end()) == std::vector<int>{0, 2, 2, 0});
  CHECK(node.name() == "n0");
  CHECK(node.cpu_units() == 20'000);
  CHECK(node.labels().at("zone") == "a");
  CHECK(node.resource_units().at("fpga") == 10'000);
}

} // namespace
