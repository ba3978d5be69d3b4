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

  bool flag() {
    return below(2) == 0;
  }

  Share share() {
    return Share{static_cast<std::int64_t>(below(30'000))};
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

ResourceRequest make_request(Random& random) {
  ResourceRequest r;
  r.name = random.name();
  r.owner = random.name();
  r.gpus = random.share();
  r.memory_bytes = random.below(1ULL << 40);
  r.cpus = random.share();
  r.accelerator_type = random.name();
  for (auto count = random.below(3); count > 0; --count)
    r.resources["r" + std::to_string(count)] = random.share();
  r.node = random.name();
  r.node_is_soft = random.flag();
  for (auto count = random.below(4); count > 0; --count)
    r.labels["l" + std::to_string(count)] = make_condition(random);
  r.priority = static_cast<int>(random.below(100)) - 50;
  r.strategy = random.flag() ? Strategy::spread : Strategy::pack;
  if (random.flag())
    r.queue_timeout = std::chrono::milliseconds{1 + random.below(10'000)};
  r.wait_for_nodes = random.flag();
  r.queue = random.flag();
  r.group = GroupId{random.below(3)};
  r.bundle = static_cast<int>(random.below(4)) - 1;
  r.parent = LeaseId{random.below(3)};
  return r;
}

} // namespace

TEST_CASE("a request comes out of the wire as it went in") {
  Random random;
  for (int i = 0; i < 2'000; ++i) {
    const auto request = make_request(random);
    v1::ResourceRequest wire;
    REQUIRE(wire.ParseFromString(to_wire(request).SerializeAsString()));
    const auto back = from_wire(wire);
    REQUIRE(back);
    REQUIRE(*back == request);
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
