#include <gpuactors/actor/placement.hpp>
#include <gpuactors/device/absent.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/device/faulty.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

Devices host_devices(const char* spec) {
  const auto specs = parse_device_specs(spec);
  REQUIRE(specs.has_value());
  auto devices = make_devices(*specs, discovery_options("local"));
  REQUIRE(devices.has_value());
  return std::move(*devices);
}

LeaseInfo lease_on(std::vector<LeasedDevice> devices) {
  LeaseInfo lease;
  lease.id = LeaseId{1};
  lease.node = "local";
  lease.devices = std::move(devices);
  return lease;
}

const auto half = Share{5000};

} // namespace

TEST_CASE("a lease opens one context for each of its devices, by their indices", "[actor]") {
  auto devices = host_devices("host:3x1MiB");
  devices.erase(devices.begin()); // the node offers devices 1 and 2 only
  auto placement = Placement::open(lease_on({{1, Share::whole(1), 1 << 20}, {2, half, 1000}}), devices, "test",
                                   std::make_shared<QuotaTable>());
  REQUIRE(placement.has_value());
  REQUIRE((*placement)->size() == 2);
  CHECK((*placement)->context(0).device().index == 1);
  CHECK((*placement)->context(1).device().index == 2);
  CHECK((*placement)->context(1).memory_limit() == 1000);
}

TEST_CASE("a lease on a device that the node does not have is refused with its number", "[actor]") {
  const auto refused =
      Placement::open(lease_on({{5, half, 1000}}), host_devices("host:2x1MiB"), "test", std::make_shared<QuotaTable>());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::device_lost);
  CHECK(refused.error().message().find("device 5") != std::string::npos);
}

TEST_CASE("a lease shows a process its CUDA devices by their indices on the node, not by their places", "[actor]") {
  Devices devices;
  for (const int index : {1, 3}) {
    DeviceInfo info;
    info.kind = DeviceKind::cuda;
    info.index = index;
    info.uuid = "GPU-" + std::to_string(index);
    devices.push_back(std::make_shared<AbsentDevice>(info, "not there"));
  }
  const auto environment = environment_of(lease_on({{3, half, 1000}}), devices);
  REQUIRE(environment.count("CUDA_VISIBLE_DEVICES") == 1);
  CHECK(environment.at("CUDA_VISIBLE_DEVICES") == "GPU-3");
  CHECK(environment_of(lease_on({{0, half, 1000}}), devices).empty());
}

TEST_CASE("a lease inside another one counts against both quotas", "[actor]") {
  const auto devices = host_devices("host:1x1MiB");
  const auto quotas = std::make_shared<QuotaTable>();
  auto outer = Placement::open(lease_on({{0, Share::whole(1), 4096}}), devices, "outer", quotas);
  REQUIRE(outer.has_value());
  auto inside = lease_on({{0, half, 4096}});
  inside.id = LeaseId{2};
  inside.parent = LeaseId{1};
  auto inner = Placement::open(inside, devices, "inner", quotas);
  REQUIRE(inner.has_value());
  auto first = (*outer)->context(0).stream().allocate(3000);
  REQUIRE(first.has_value());
  const auto second = (*inner)->context(0).stream().allocate(3000);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == Errc::out_of_memory);
  CHECK(second.error().message().starts_with("inner on node local, device 0: outer on node local, device 0 cannot "));
}

TEST_CASE("what was left allocated is freed, and its size told", "[actor]") {
  const auto devices = host_devices("host:1x1MiB");
  auto placement = Placement::open(lease_on({{0, half, 4096}}), devices, "test", std::make_shared<QuotaTable>());
  REQUIRE(placement.has_value());
  auto buffer = (*placement)->context(0).stream().allocate(1024);
  REQUIRE(buffer.has_value());
  const auto freed = (*placement)->reclaim();
  REQUIRE(freed.has_value());
  CHECK(*freed == 1024);
  CHECK((*placement)->context(0).memory_used() == 0);
}

TEST_CASE("only devices whose context is lost are reported as lost", "[actor]") {
  auto devices = host_devices("host:2x1MiB");
  const auto plan = std::make_shared<faulty::Plan>();
  devices[1] = std::make_shared<faulty::FaultyDevice>(devices[1], plan);
  auto placement =
      Placement::open(lease_on({{0, half, 4096}, {1, half, 4096}}), devices, "test", std::make_shared<QuotaTable>());
  REQUIRE(placement.has_value());
  CHECK((*placement)->lost_devices().empty());
  plan->lose_context_at(faulty::Call::allocate, plan->calls(faulty::Call::allocate) + 1);
  CHECK((*placement)->context(1).stream().allocate(16).error().code() == Errc::context_lost);
  CHECK((*placement)->lost_devices() == std::vector<int>{1});
}

TEST_CASE("a device that was lost to the process before is reported, and its lease works in another one", "[actor]") {
  auto devices = host_devices("host:2x1MiB");
  const auto plan = std::make_shared<faulty::Plan>();
  devices[1] = std::make_shared<faulty::FaultyDevice>(devices[1], plan);
  plan->lose_context_at(faulty::Call::open, 1);
  HolderControl control;
  const auto placement = Placement::open(lease_on({{0, half, 4096}, {1, half, 4096}}), devices, "test",
                                         std::make_shared<QuotaTable>(), true, &control);
  REQUIRE_FALSE(placement.has_value());
  CHECK(placement.error().code() == Errc::worker_died);
  CHECK(placement.error().message().find("a sticky error had lost device 1 to the process before")
        != std::string::npos);
  CHECK(control.lost_devices() == std::vector<int>{1});
}
