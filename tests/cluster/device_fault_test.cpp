// GPUs that report faults of their own: on the fake driver and the fake management library.
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/test/messages.pb.h>

#include <support/catch.hpp>
#include <support/gate.hpp>
#include <support/results.hpp>

#include <device/fake_nvml/nvml.hpp>
#include <dlfcn.h>

#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t xid = 0x8;
/// In the management library's order, which is not CUDA's.
constexpr int gpu_of_device_0 = 1;

/// Says who sits; never opened.
Gate& seats() {
  static Gate gate;
  return gate;
}

class Sitter : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Number device(const google::protobuf::Empty&) {
    Number result;
    result.set_value(gpu().device().index);
    return result;
  }

  /// Returns when it is asked to stop.
  Number sit(const google::protobuf::Empty& in) {
    seats().pass([this] { return stop_requested(); });
    return device(in);
  }
};

std::shared_ptr<const TypeRegistry> fault_types() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Sitter>("sitter", *made).method("device", &Sitter::device).method("sit", &Sitter::sit);
    define_task(
        "sit",
        [](TaskContext& ctx, const Number& in) {
          seats().pass([&] { return ctx.stop_requested(); });
          return in;
        },
        *made);
    return made;
  }();
  return registry;
}

Cluster embed_two() {
  EmbedOptions options;
  options.devices = "cuda:GPU-00,GPU-01";
  options.registry = fault_types();
  return must(Cluster::embed(std::move(options)));
}

void post_event(int gpu, std::uint64_t type, std::uint64_t data) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* post = reinterpret_cast<void (*)(int, std::uint64_t, std::uint64_t)>(dlsym(library, "fake_nvml_post"));
  REQUIRE(post != nullptr);
  post(gpu, type, data);
}

const v1::DeviceState& device_of(const v1::ClusterState& state, int index) {
  for (const auto& device : state.devices())
    if (device.device().index() == index)
      return device;
  FAIL("there is no device " << index);
  return state.devices(0);
}

void await_failed(Cluster& cluster, int index) {
  const auto until = Clock::now() + 20s;
  while (device_of(must(cluster.state()), index).state() != "failed" && Clock::now() < until)
    std::this_thread::yield();
  const auto state = must(cluster.state());
  REQUIRE(device_of(state, index).state() == "failed");
}

} // namespace

TEST_CASE("a GPU with a fault of its own is out of use with the reason, and what ran on it is told to ask anew") {
  auto cluster = embed_two();
  auto actor = must(cluster.spawn("sitter", {}, {.gpus = 0.5, .max_restarts = 1}));
  REQUIRE(must(actor.call<Number>("device").get()).value() == 0);
  auto task = cluster.submit<Number>("sit", Number{}, {.gpus = 0.25});
  seats().await(1);
  auto running = actor.call<Number>("sit");
  seats().await(2);
  auto waiting = actor.call<Number>("device");
  // A program's own fault comes first, and changes nothing.
  post_event(gpu_of_device_0, xid, 31);
  post_event(gpu_of_device_0, xid, 79);
  await_failed(cluster, 0);
  const Error expected{Errc::lease_revoked,
                       "device 0 of node local has failed: XID 79 (the GPU has fallen off the bus)"};
  CHECK(expected.remedy() == Remedy::reacquire);
  for (auto* call : {&task, &running, &waiting}) {
    const auto result = call->get(20s);
    REQUIRE_FALSE(result);
    CHECK(result.error() == expected);
  }
  const auto state = must(cluster.state());
  CHECK(device_of(state, 0).reason() == "XID 79 (the GPU has fallen off the bus)");
  CHECK(device_of(state, 1).state() == "ok");
  CHECK(device_of(state, 1).reason().empty());
  // The actor is on the other device, and nothing else comes to the first.
  auto again = actor.call<Number>("device").get(20s);
  while (!again && (again.error().code() == Errc::actor_died || again.error().code() == Errc::lease_revoked))
    again = actor.call<Number>("device").get(20s);
  CHECK(must(std::move(again)).value() == 1);
  Options both;
  both.gpus = 2;
  CHECK(code_of(cluster.spawn("sitter", {}, both)) == Errc::invalid_argument);
  CHECK(code_of(cluster.submit<Number>("sit", Number{}, both).get(20s)) == Errc::infeasible);
}

TEST_CASE("faults of programs, and those that the GPU has dealt with, leave it in use") {
  auto cluster = embed_two();
  auto actor = must(cluster.spawn("sitter", {}, {.gpus = 0.5}));
  for (const std::uint64_t number : {13, 31, 43, 45, 63, 94})
    post_event(gpu_of_device_0, xid, number);
  // This one comes after them.
  post_event(0, 0x2, 0);
  await_failed(cluster, 1);
  const auto state = must(cluster.state());
  CHECK(device_of(state, 0).state() == "ok");
  CHECK(device_of(state, 1).reason() == "an uncorrectable ECC error");
  CHECK(must(actor.call<Number>("device").get()).value() == 0);
}

TEST_CASE("a cluster that begins anew has its devices back") {
  auto cluster = embed_two();
  const auto state = must(cluster.state());
  CHECK(device_of(state, 0).state() == "ok");
  CHECK(device_of(state, 1).state() == "ok");
}
