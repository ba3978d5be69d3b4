// What a worker learns of its devices from its node's message.
#include <gpuactors/agent/core/device_messages.hpp>

#include <catch2/catch.hpp>

namespace {

using namespace gpuactors;

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

} // namespace
