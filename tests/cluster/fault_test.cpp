// What a device that fails does to the actors and tasks on it, and to the cluster.
#include "fixtures.hpp"

#include <gpuactors/device/faulty.hpp>

#include <support/catch.hpp>

#include <fmt/format.h>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// An embedded cluster of one node with two devices; `plan` is the script of device 0.
Cluster embed_faulty(const std::shared_ptr<faulty::Plan>& plan) {
  EmbeddedNode node;
  node.name = "local";
  node.devices = "host:2x64MiB";
  node.decorate = faulty::decorator(plan, 0);
  EmbedOptions options;
  options.nodes.push_back(std::move(node));
  options.registry = types();
  auto cluster = Cluster::embed(std::move(options));
  REQUIRE(cluster.has_value());
  return std::move(*cluster);
}

std::string device_state(Cluster& cluster, int index) {
  const auto state = cluster.state();
  REQUIRE(state.has_value());
  return state->devices(index).state();
}

/// The end of a holder is reported after its answer: waits for it.
void await_failed(Cluster& cluster, int index) {
  while (device_state(cluster, index) != "failed")
    std::this_thread::yield();
}

} // namespace

TEST_CASE("an error of a device fails the call, and the actor goes on", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_faulty(plan);
  auto actor = cluster.spawn("fraction", {}, {.gpus = 0.5});
  REQUIRE(actor.has_value());
  plan->fail_at(faulty::Call::allocate, plan->calls(faulty::Call::allocate) + 1,
                Error{Errc::out_of_memory, "the device has no memory left (injected)"});
  const auto refused = actor->call<Number>("allocate", number(1024)).get();
  REQUIRE_FALSE(refused.has_value());
  // The device knows neither the actor nor its own node.
  CHECK(refused.error()
        == Error{Errc::out_of_memory, fmt::format("actor {} (fraction) on node {}, device 0: the device has no memory "
                                                  "left (injected)",
                                                  actor->id().value(), actor->lease().node)});
  CHECK(actor->call<Number>("allocate", number(1024)).get().has_value());
  CHECK(device_state(cluster, 0) == "ok");
}

TEST_CASE("a device whose context is lost is quarantined, and an actor on it starts anew on another one", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_faulty(plan);
  auto actor = cluster.spawn("fraction", {}, {.gpus = 0.5, .max_restarts = 1});
  auto neighbour = cluster.spawn("fraction", {}, {.gpus = 0.25});
  REQUIRE(actor.has_value());
  REQUIRE(neighbour.has_value());
  REQUIRE(actor->info().lease().devices(0).index() == 0);
  REQUIRE(neighbour->info().lease().devices(0).index() == 0);

  plan->lose_context_at(faulty::Call::allocate, plan->calls(faulty::Call::allocate) + 1);
  const auto lost = actor->call<Number>("allocate", number(1024)).get();
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == Errc::context_lost);
  CHECK(lost.error().remedy() == Remedy::replace_process);

  // The next call finds the actor again, or is told that it was ending; one of the two restarts it is.
  auto again = actor->call<Names>("ids").get();
  while (!again && again.error().code() == Errc::actor_died)
    again = actor->call<Names>("ids").get();
  REQUIRE(again.has_value());
  CHECK(again->names(0) == "1");
  CHECK(device_state(cluster, 0) == "failed");
  CHECK(device_state(cluster, 1) == "ok");
  // Nothing is placed on the failed device, and its other holder is gone with it.
  const auto more = cluster.spawn("fraction", {}, {.gpus = 0.5});
  REQUIRE(more.has_value());
  CHECK(more->info().lease().devices(0).index() == 1);
  CHECK(neighbour->call<Names>("ids").get().error().code() == Errc::actor_died);
}

TEST_CASE("a task whose context is lost says so, and the next one runs on another device", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_faulty(plan);
  plan->lose_context_at(faulty::Call::allocate, 1);
  const auto lost = cluster.submit<Number>("leak", number(1024), {.gpus = 1}).get();
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == Errc::context_lost);
  CHECK(cluster.submit<Number>("leak", number(1024), {.gpus = 1}).get().has_value());
  await_failed(cluster, 0);
}
