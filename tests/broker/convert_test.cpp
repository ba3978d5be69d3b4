// What a request or a node says survives the wire.
#include <gpuactors/broker/core/convert.hpp>

#include <support/catch.hpp>

#include <random>

namespace {

using namespace gpuactors;

// The numbers of mt19937 are the same everywhere; those of the standard's distributions are not.
class Random {
public:
  std::uint64_t below(std::uint64_t bound) {
    return engine_() % bound;
  }

  std::string name() {
    static const char* const names[] = {"", "a", "zone", "a longer name with spaces", "\u00e4"};
    return names[below(5)];
  }

private:
  std::mt19937 engine_{42};
};

LabelCondition make_condition(Random& random) {
  using Op = LabelCondition::Op;
  const auto op = static_cast<Op>(random.below(4));
  if (op == Op::exists || op == Op::absent)
    return op;
  std::vector<std::string> values(1 + random.below(3));
  for (auto& value : values)
    value = random.name();
  return {op, values};
}

} // namespace

TEST_CASE("a request is what its message says") {
  v1::ResourceRequest wire;
  wire.set_name("trainer");
  wire.set_quota_owner("alice");
  wire.set_gpu_units(15'000);
  wire.set_memory_bytes(1ULL << 40);
  wire.set_cpu_units(2'500);
  wire.set_accelerator_type("H200");
  (*wire.mutable_resource_units())["fpga"] = 10'000;
  wire.set_node("n0");
  wire.set_node_soft(true);
  wire.set_priority(-7);
  wire.set_spread(true);
  wire.set_queue_timeout_ms(1'234);
  wire.set_wait_for_nodes(true);
  wire.set_group(3);
  wire.set_bundle(4);
  wire.set_parent_lease(5);
  ResourceRequest asked;
  asked.name = "trainer";
  asked.owner = "alice";
  asked.gpus = Share{15'000};
  asked.memory_bytes = 1ULL << 40;
  asked.cpus = Share{2'500};
  asked.accelerator_type = "H200";
  asked.resources = {{"fpga", Share::whole(1)}};
  asked.node = "n0";
  asked.node_is_soft = true;
  asked.priority = -7;
  asked.strategy = Strategy::spread;
  asked.queue_timeout = std::chrono::milliseconds{1'234};
  asked.wait_for_nodes = true;
  asked.group = GroupId{3};
  asked.bundle = 4;
  asked.parent = LeaseId{5};
  const auto read = from_wire(wire);
  REQUIRE(read);
  CHECK(*read == asked);
  const auto nothing = from_wire(v1::ResourceRequest{});
  REQUIRE(nothing);
  CHECK(*nothing == ResourceRequest{});
}

TEST_CASE("conditions on labels come out of the wire as they went in") {
  Random random;
  for (int i = 0; i < 2'000; ++i) {
    LabelConditions labels;
    for (auto count = random.below(4); count > 0; --count)
      labels["l" + std::to_string(count)] = make_condition(random);
    v1::ResourceRequest sent;
    set_labels(labels, sent);
    v1::ResourceRequest wire;
    REQUIRE(wire.ParseFromString(sent.SerializeAsString()));
    const auto back = from_wire(wire);
    REQUIRE(back);
    REQUIRE(back->labels == labels);
  }
}

TEST_CASE("what no request can say is refused") {
  v1::ResourceRequest wire;
  wire.set_gpu_units(-1);
  CHECK(from_wire(wire).error().code() == Errc::invalid_argument);
  wire.set_gpu_units(0);
  (*wire.mutable_label_conditions())["zone"].set_op(static_cast<v1::LabelCondition::Op>(9));
  CHECK(from_wire(wire).error().message() == "label zone: 9 is no operator that this version knows");
}

TEST_CASE("distances and NUMA nodes of a node come out of the wire") {
  v1::Node wire;
  wire.set_name("n0");
  wire.add_devices()->set_numa(2);
  wire.add_devices();
  for (const int distance : {0, 3, 3, 0})
    wire.add_distances(distance);
  const auto node = from_wire(wire);
  CHECK(node.devices[0].numa_node == 1);
  CHECK(node.devices[1].numa_node == -1);
  CHECK(node.distances == std::vector<std::vector<int>>{{0, 3}, {3, 0}});
  CHECK(validate(node));
  // Too few or too many numbers do not become a table by chance.
  wire.add_distances(1);
  CHECK_FALSE(validate(from_wire(wire)));
}

TEST_CASE("leases and bundles name devices by their indices, and the ledger by their positions", "[broker]") {
  v1::Node node;
  node.set_name("n0");
  for (const auto index : {7, 2, 5})
    node.add_devices()->set_index(index);
  Lease lease;
  lease.id = LeaseId{1};
  lease.owner = "alice";
  lease.node = "n0";
  lease.devices = {{0, Share{5000}, 1024}, {2, Share{2500}, 512}};
  lease.cpus = Share::whole(2);
  lease.resources = {{"fpga", Share::whole(1)}};
  lease.group = GroupId{3};
  lease.bundle = 4;
  const auto wire = to_wire(lease, node);
  REQUIRE(wire.devices_size() == 2);
  CHECK(wire.devices(0).index() == 7);
  CHECK(wire.devices(1).index() == 5);
  CHECK(from_wire(wire, node) == lease);

  const BundleGrant bundle{4, "n0", lease.devices, lease.cpus, lease.resources};
  CHECK(to_wire(bundle, node).devices(1).index() == 5);
  CHECK(bundle_from_wire(to_wire(bundle, node), node) == bundle);

  CHECK(position_of(node, 2) == 1);
  CHECK(position_of(node, 3) == node.devices_size());
}
