// The cores of broker and agents over simulated histories: real messages, played workers and clients, all kinds of
// faults.
#include <support/catch.hpp>

#include <sim/cluster.hpp>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#ifdef CAF_MAJOR_VERSION
#error "the cores have come to include CAF"
#endif

namespace {

using simulation::Coverage;
using simulation::Faults;

void check(const std::vector<std::string>& none) {
  for (const auto& one : none)
    UNSCOPED_INFO(one);
  CHECK(none.empty());
}

/// Whether all who are away come back in time.
bool nobody_goes(const Faults& faults) {
  return faults.lost_connections + faults.lost_nodes + faults.lost_clients + faults.lost_brokers + faults.goodbyes == 0;
}

void live_through(std::uint64_t seed, const Faults& faults, Coverage& coverage) {
  INFO("seed " << seed);
  const auto* traced = std::getenv("GPUACTORS_SIMULATION_TRACE"); // the seed of a history to look at
  const bool trace = traced != nullptr && traced == std::to_string(seed);
  simulation::Cluster cluster{seed, faults, coverage, trace ? &std::cerr : nullptr};
  cluster.live(150);
  cluster.calm();
  check(cluster.disagreements());
  if (faults.lost_nodes + faults.lost_clients + faults.own_ends + faults.goodbyes == 0)
    check(cluster.forsaken());
  if (faults.standstills > 0 && nobody_goes(faults))
    check(cluster.given_up());
  cluster.leave();
  check(cluster.leftovers());
  check(cluster.violations());
}

/// GPUACTORS_SIMULATION_SEEDS asks for more, where there is time.
const std::uint64_t seeds = [] {
  const auto* asked = std::getenv("GPUACTORS_SIMULATION_SEEDS");
  return asked != nullptr ? std::stoull(asked) : 400;
}();

/// Lives through so many histories. @returns what has happened in them, and before.
Coverage live_through(const Faults& faults, std::uint64_t histories = seeds, Coverage coverage = {}) {
  for (std::uint64_t seed = 1; seed <= histories; ++seed)
    live_through(seed, faults, coverage);
  return coverage;
}

} // namespace

TEST_CASE("a cluster in which nothing fails ends as it began", "[simulation]") {
  auto coverage = live_through(Faults{});
  for (const auto* what : {"acquire: done", "spawn: done", "group: done", "find: done", "kill: done", "mourn: done",
                           "lives with its spawner", "ended with its spawner"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster in which holders and nodes die ends as it began", "[simulation]") {
  auto coverage = live_through({.lost_nodes = 3, .lost_holders = 10, .own_ends = 5});
  CHECK(coverage["holder lost"] > seeds);
  CHECK(coverage["node lost"] > seeds);
  CHECK(coverage["own end"] > seeds);
}

TEST_CASE("a cluster in which worker processes die, stick or never begin ends as it began", "[simulation]") {
  auto coverage = live_through({.lost_holders = 3, .lost_workers = 10, .own_ends = 3});
  for (const auto* what : {"worker lost", "context lost", "state found again", "own end"})
    CHECK(coverage[what] > seeds);
  for (const auto* what : {"worker not started", "worker did not come up", "holder stuck", "worker stuck",
                           "worker lost behind an own end"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("a cluster whose nodes run out of host memory ends as it began", "[simulation]") {
  auto coverage = live_through({.full_memory = 20}, seeds / 2);
  coverage = live_through({.lost_connections = 2,
                           .lost_holders = 3,
                           .lost_workers = 4,
                           .own_ends = 3,
                           .lost_brokers = 1,
                           .full_memory = 20},
                          seeds / 2, std::move(coverage));
  for (const auto* what : {"ended for its memory", "lease ended: worker_died", "state found again"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster in which devices fail gives nobody what others still hold", "[simulation]") {
  auto coverage = live_through({.lost_holders = 4, .own_ends = 3, .lost_devices = 6});
  CHECK(coverage["device lost"] > seeds);
}

TEST_CASE("a cluster in which connections are lost ends as it began", "[simulation]") {
  auto coverage = live_through({.lost_connections = 8, .lost_clients = 2, .own_ends = 4, .drains = 3});
  for (const auto* what : {"connection lost", "client lost", "node drained", "node undrained", "own end"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster whose broker dies brings no actor back that has ended itself", "[simulation]") {
  auto coverage = live_through({.own_ends = 8, .lost_brokers = 3});
  for (const auto* what : {"broker lost", "own end"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster whose broker and workers die keeps each actor that may be restarted for ever", "[simulation]") {
  auto coverage = live_through({.lost_holders = 3, .lost_workers = 8, .lost_brokers = 4, .drains = 2});
  for (const auto* what : {"broker lost", "worker lost", "lasts"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster whose broker stands still loses nobody who comes back in time", "[simulation]") {
  auto coverage = live_through({.standstills = 4});
  CHECK(coverage["broker stood still"] > seeds);
}

TEST_CASE("a cluster whose broker stands still, and which some leave, ends as it began", "[simulation]") {
  auto coverage = live_through({.lost_connections = 3, .lost_nodes = 1, .drains = 2, .goodbyes = 3, .standstills = 2});
  for (const auto* what : {"broker stood still", "node stopped", "node leaves", "client stopped"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a cluster with quotas gives nobody more than theirs, whatever dies", "[simulation]") {
  auto coverage = live_through({.quotas = 10}, seeds / 2);
  coverage = live_through({.lost_brokers = 3, .quotas = 10}, seeds / 2, std::move(coverage));
  coverage = live_through({.lost_connections = 5,
                           .lost_nodes = 2,
                           .lost_clients = 1,
                           .lost_holders = 5,
                           .own_ends = 4,
                           .lost_brokers = 2,
                           .drains = 2,
                           .quotas = 10},
                          seeds / 2, std::move(coverage));
  for (const auto* what : {"quota set", "at the quota", "waits for a quota", "broker lost"})
    CHECK(coverage[what] > seeds / 2);
}

TEST_CASE("in a cluster whose nodes have different types, nothing runs on a node without its type", "[simulation]") {
  auto coverage = live_through({.mixed_types = true}, seeds / 2);
  coverage = live_through({.lost_nodes = 3, .lost_holders = 5, .drains = 3, .mixed_types = true}, seeds / 2,
                          std::move(coverage));
  coverage = live_through({.lost_connections = 4,
                           .lost_nodes = 3,
                           .lost_holders = 4,
                           .lost_workers = 3,
                           .own_ends = 3,
                           .lost_brokers = 3,
                           .drains = 2,
                           .goodbyes = 2,
                           .mixed_types = true},
                          seeds / 2, std::move(coverage));
  for (const auto* what : {"started on a node with its type", "acquire: done", "spawn: done", "acquire: not_found",
                           "spawn: not_found", "broker lost"})
    CHECK(coverage[what] > seeds / 2);
  CHECK(coverage["a bundle without its type"] > seeds / 8);
}

TEST_CASE("a cluster whose nodes change their programs runs nothing in a program without its type", "[simulation]") {
  auto coverage = live_through({.mixed_types = true, .renewals = 8}, seeds / 2);
  coverage = live_through({.lost_connections = 4,
                           .lost_nodes = 2,
                           .lost_holders = 4,
                           .lost_workers = 3,
                           .own_ends = 3,
                           .lost_brokers = 2,
                           .drains = 2,
                           .goodbyes = 1,
                           .mixed_types = true,
                           .renewals = 6},
                          seeds / 2, std::move(coverage));
  for (const auto* what : {"programs changed", "started on a node with its type", "acquire: done", "spawn: done"})
    CHECK(coverage[what] > seeds / 2);
}

TEST_CASE("a cluster in which everything dies ends as it began", "[simulation]") {
  auto coverage = live_through({.lost_connections = 5,
                                .lost_nodes = 2,
                                .lost_clients = 1,
                                .lost_holders = 5,
                                .lost_workers = 4,
                                .own_ends = 4,
                                .lost_brokers = 2,
                                .drains = 2,
                                .lost_devices = 3,
                                .goodbyes = 1,
                                .standstills = 1});
  CHECK(coverage["broker lost"] > seeds);
  for (const auto* what : {"lives with its spawner", "ended with its spawner"})
    CHECK(coverage[what] > seeds / 40);
}
