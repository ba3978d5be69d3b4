// Placement groups and draining through the public interface.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <future>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

Cluster embed_two_nodes() {
  EmbedOptions options;
  for (const auto* name : {"n0", "n1"}) {
    EmbeddedNode node;
    node.name = name;
    node.devices = "host:2x64MiB";
    options.nodes.push_back(std::move(node));
  }
  options.registry = types();
  return must(Cluster::embed(std::move(options)));
}

std::int64_t free_units(Cluster& cluster) {
  std::int64_t sum = 0;
  const auto state = must(cluster.state());
  for (const auto& device : state.devices())
    sum += device.free_units();
  return sum;
}

} // namespace

TEST_CASE("actors placed in the bundles of a group get the devices of their bundle", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto group = must(
      cluster.create_group({{.gpus = 1}, {.gpus = 1}}, {.name = "pair", .strategy = GroupStrategy::strict_spread}));
  REQUIRE(group.bundles.size() == 2);
  CHECK(group.name == "pair");
  CHECK(group.bundles[0].node != group.bundles[1].node);
  for (int bundle = 0; bundle < 2; ++bundle) {
    const auto actor = must(cluster.spawn("whole", {}, {.gpus = 1, .group = group.id, .bundle = bundle}));
    const auto& place = group.bundles[static_cast<std::size_t>(bundle)];
    CHECK(actor.info().lease().node() == place.node);
    CHECK(must(actor.call<Names>("ids").get()).names(0) == std::to_string(place.devices[0].index));
  }
  // Both came out of what was set aside: one device of each node is still free.
  CHECK(free_units(cluster) == 20'000);
}

TEST_CASE("more bundles than a group may have are refused before one of them is looked at", "[cluster]") {
  auto cluster = embed();
  const auto refused = cluster.create_group(std::vector<Options>(limits::bundles_per_group + 1, Options{.gpus = 1.5}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message() == "a placement group has 1025 bundles: at most 1024 are allowed");
}

TEST_CASE("actors that name no bundle fill all bundles of their group", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto group = must(cluster.create_group({{.gpus = 1}, {.gpus = 1}, {.gpus = 1}}));
  std::set<int> bundles;
  for (int i = 0; i < 3; ++i) {
    const auto actor = cluster.spawn("whole", {}, {.gpus = 1, .queue_timeout = 0s, .group = group.id});
    REQUIRE(actor.has_value());
    bundles.insert(actor->info().lease().bundle());
  }
  CHECK(bundles == std::set{0, 1, 2});
}

TEST_CASE("tasks in a bundle draw from it and from nothing else", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto group = must(cluster.create_group({{.gpus = 0.5}}));
  CHECK(must(cluster.submit<Number>("share_of", {}, {.gpus = 0.5, .group = group.id}).get()).value() == 0.5);
  const auto refused = cluster.submit<Number>("share_of", {}, {.gpus = 0.75, .group = group.id}).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::infeasible);
}

TEST_CASE("removing a group ends what runs in it, refuses what waits for it, and frees everything", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto group = must(cluster.create_group({{.gpus = 1}, {.gpus = 1}}));
  const Options inside{.gpus = 1, .group = group.id, .bundle = 0};
  auto actor = must(cluster.spawn("whole", {}, inside));
  gate().close();
  auto running = cluster.submit<Number>("wait_for_stop", number(1), {.gpus = 1, .group = group.id, .bundle = 1});
  gate().await(1);
  gate().open();
  auto waiting = cluster.submit<Number>("share_of", {}, inside);
  REQUIRE(cluster.remove_group(group.id).has_value());
  CHECK(actor.call<Names>("ids").get().error().code() == Errc::actor_died);
  CHECK(running.ready()); // it was asked to stop, and did
  CHECK_FALSE(waiting.get().has_value());
  CHECK(free_units(cluster) == 40'000);
  CHECK(must(cluster.state()).groups_size() == 0);
  CHECK(cluster.remove_group(group.id).error().code() == Errc::not_found);
  CHECK(cluster.submit<Number>("share_of", {}, inside).get().error().code() == Errc::not_found);
}

TEST_CASE("the removal of a group is waited for no longer than it is asked for, and goes on", "[cluster]") {
  auto cluster = embed_two_nodes();
  gate().close();
  const auto group = must(cluster.create_group({{.gpus = 1}}));
  auto running = cluster.submit<Number>("wait", number(1), {.gpus = 1, .group = group.id});
  gate().await(1);
  const auto late = cluster.remove_group(group.id, 10ms);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == Errc::deadline_exceeded);
  gate().open();
  CHECK(eventually([&] { return must(cluster.state()).groups().empty(); }));
  CHECK(free_units(cluster) == 40'000);
}

TEST_CASE("whoever waits for the removal of a group may stop waiting, and it goes on", "[cluster]") {
  auto cluster = embed_two_nodes();
  gate().close();
  const auto group = must(cluster.create_group({{.gpus = 1}}));
  auto running = cluster.submit<Number>("wait", number(1), {.gpus = 1, .group = group.id});
  gate().await(1);
  auto removal = cluster.remove_group_async(group.id);
  removal.cancel();
  REQUIRE(removal.ready());
  CHECK(removal.get().error().code() == Errc::cancelled);
  gate().open();
  CHECK(eventually([&] { return must(cluster.state()).groups().empty(); }));
}

TEST_CASE("removing a group ends what its own withdrawals let in", "[cluster]") {
  auto cluster = embed("host:1x64MiB");
  const auto group = must(cluster.create_group({{.gpus = 1}}));
  const auto inside = [&](double gpus) { return Options{.gpus = gpus, .group = group.id}; };
  const auto holder = must(cluster.spawn("fraction", {}, inside(0.6)));
  auto whole = cluster.spawn_async("whole", {}, inside(1));
  // Who has waited for a second gets a reservation with the next request, which it keeps out although it fits.
  CHECK(cluster.submit<Number>("share_of", {}, {.gpus = 1, .queue_timeout = 1'200ms}).get().error().code()
        == Errc::no_capacity);
  auto small = cluster.spawn_async("fraction", {}, inside(0.4));
  REQUIRE(eventually([&] { return must(cluster.state()).queue_size() == 2; }));
  REQUIRE(cluster.remove_group(group.id).has_value());
  CHECK_FALSE(whole.get().has_value());
  // Granted when the other one was withdrawn, or not: there is an answer.
  static_cast<void>(small.get());
  const auto state = must(cluster.state());
  CHECK(state.groups_size() == 0);
  CHECK(state.leases_size() == 0);
}

TEST_CASE("a node that is drained without a limit keeps what runs there", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto actor = must(cluster.spawn("accumulator", number(1), {.gpus = 1, .node = "n0"}));
  auto drained = std::async(std::launch::async, [&] { return cluster.drain("n0", Duration::max()); });
  REQUIRE(eventually([&] { return must(cluster.state()).nodes(0).state() == "draining"; }));
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 2);
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 3);
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(drained.get().has_value());
}

TEST_CASE("a group that does not fit now waits, and is told when it can never fit", "[cluster]") {
  auto cluster = embed_two_nodes();
  auto actor = must(cluster.spawn("whole", {}, {.gpus = 2}));
  const std::vector<Options> bundles{{.gpus = 2}, {.gpus = 2}};
  const auto late = cluster.create_group(bundles, {.queue_timeout = std::chrono::milliseconds{1}});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == Errc::no_capacity);
  const auto never_fits = cluster.create_group({{.gpus = 2}, {.gpus = 2}, {.gpus = 1}});
  REQUIRE_FALSE(never_fits.has_value());
  CHECK(never_fits.error().code() == Errc::infeasible);
  const auto wrong = cluster.create_group({{.gpus = 1}, {.gpus = 1.5}});
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code() == Errc::invalid_argument);
  CHECK(wrong.error().message().find("bundle 1") == 0);
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(cluster.create_group(bundles).has_value());
}

TEST_CASE("options that a bundle does not have are refused, and say where they belong", "[cluster]") {
  auto cluster = embed_two_nodes();
  const auto why = [&](const Options& bundle) {
    const auto refused = cluster.create_group({{.gpus = 1}, bundle});
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == Errc::invalid_argument);
    return refused.error().message();
  };
  CHECK(why({.gpus = 1, .priority = 1}) == "bundle 1: priority is not of a bundle: set it in the GroupOptions");
  CHECK(why({.gpus = 1, .wait_for_nodes = true}).find("GroupOptions") != std::string::npos);
  CHECK(why({.gpus = 1, .spread = true}).find("strategy") != std::string::npos);
  CHECK(why({.gpus = 1, .group = GroupId{1}}).find("group is not of a bundle") != std::string::npos);
  // What runs in the bundle may be described by the same options.
  CHECK(cluster.create_group({{.gpus = 1, .cpus = 1, .node = "n0", .name = "a", .max_restarts = 1}}).has_value());
}

TEST_CASE("options of the one node of an embedded cluster are refused beside nodes of the program's own", "[cluster]") {
  EmbedOptions options;
  options.nodes = {{.name = "n0", .devices = "host:1x64MiB"}};
  options.devices = "host:2x64MiB";
  const auto refused = Cluster::embed(std::move(options));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("set it in each of `nodes`") != std::string::npos);
}

TEST_CASE("groups are asked for and removed without waiting for each", "[cluster]") {
  auto cluster = embed_two_nodes();
  std::vector<Future<PlacementGroup>> asked;
  for (int i = 0; i < 100; ++i)
    asked.push_back(cluster.create_group_async({{.gpus = 0.02}, {.gpus = 0.02}}, {.name = std::to_string(i)}));
  auto wrong = cluster.create_group_async({{.gpus = 1.5}});
  CHECK(wrong.get().error().code() == Errc::invalid_argument);
  std::vector<Future<void>> removed;
  for (int i = 0; i < 100; ++i) {
    const auto group = must(asked[static_cast<std::size_t>(i)].get());
    CHECK(group.name == std::to_string(i));
    removed.push_back(cluster.remove_group_async(group.id));
  }
  for (auto& end : removed)
    CHECK(end.get().has_value());
  CHECK(free_units(cluster) == 40'000);
}

TEST_CASE("a group that is withdrawn leaves the queue, or is removed when it is placed already", "[cluster]") {
  auto cluster = embed_two_nodes();
  {
    auto actor = must(cluster.spawn("whole", {}, {.gpus = 2}));
    auto waiting = cluster.create_group_async({{.gpus = 2}, {.gpus = 2}});
    auto next = cluster.create_group_async({{.gpus = 2}});
    waiting.cancel();
    CHECK(waiting.get().error().code() == Errc::cancelled);
    CHECK(next.get().has_value()); // it does not wait behind the other any more
    REQUIRE(cluster.kill(actor).has_value());
  }
  auto placed = cluster.create_group_async({{.gpus = 2}});
  placed.cancel();
  // The answer may have been faster; then the group is there, and takes all that is left.
  if (const auto first = placed.get())
    REQUIRE(cluster.remove_group(first->id).has_value());
  auto answered = cluster.create_group_async({{.gpus = 0.5}});
  const auto group = must(answered.get());
  answered.cancel(); // too late
  const auto state = must(cluster.state());
  CHECK(state.queue_size() == 0);
  CHECK(state.groups_size() == 2);
  CHECK(cluster.remove_group(group.id).has_value());
}

TEST_CASE("a drained node keeps what runs there and gets nothing new", "[cluster]") {
  auto cluster = embed_two_nodes();
  auto actor = must(cluster.spawn("fraction", {}, {.gpus = 0.5, .node = "n0"}));
  REQUIRE(cluster.drain("n0").has_value());
  CHECK(must(actor.call<Names>("ids").get()).names_size() == 1);
  for (int i = 0; i < 2; ++i)
    CHECK(must(cluster.spawn("whole", {}, {.gpus = 1})).info().lease().node() == "n1");
  // What can go nowhere else waits for it.
  const std::chrono::milliseconds hasty{1};
  CHECK(cluster.spawn("whole", {}, {.gpus = 1, .node = "n0", .queue_timeout = hasty}).error().code()
        == Errc::no_capacity);
  auto patient = cluster.spawn_async("whole", {}, {.gpus = 1, .node = "n0"});
  auto group = cluster.create_group_async({{.gpus = 0.5, .node = "n0"}});
  CHECK(eventually([&] { return must(cluster.state()).queue_size() == 2; }));
  REQUIRE(cluster.undrain("n0").has_value());
  CHECK(must(patient.get()).info().lease().node() == "n0");
  CHECK(group.get().has_value());
  const auto unknown = cluster.drain("n2");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code() == Errc::not_found);
}
