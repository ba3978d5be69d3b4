// The core of the tasks' dispatcher over simulated histories, and the rules that it decides by.
#include <support/catch.hpp>

#include <sim/dispatch.hpp>

#include <cstdlib>
#include <iostream>

#ifdef CAF_MAJOR_VERSION
#error "the core has come to include CAF"
#endif

namespace {

using simulation::DispatchCoverage;
using simulation::DispatchOptions;

/// GPUACTORS_SIMULATION_SEEDS asks for more, where there is time.
const std::uint64_t seeds = [] {
  const auto* asked = std::getenv("GPUACTORS_SIMULATION_SEEDS");
  return asked != nullptr ? std::stoull(asked) : 150;
}();

DispatchCoverage live_through(const DispatchOptions& options) {
  DispatchCoverage coverage;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    simulation::Dispatch dispatch{seed, options, coverage};
    dispatch.live();
    for (const auto& each : dispatch.violations())
      UNSCOPED_INFO(each);
    REQUIRE(dispatch.violations().empty());
  }
  if (std::getenv("GPUACTORS_SIMULATION_TRACE") != nullptr)
    for (const auto& [what, times] : coverage)
      std::cerr << what << ": " << times << '\n';
  return coverage;
}

} // namespace

TEST_CASE("every task has an end and every lease is given back when nothing fails", "[simulation]") {
  auto coverage = live_through({});
  CHECK(coverage["sent ahead"] > seeds);
  CHECK(coverage["taken back"] > seeds);
  live_through({.remote = false});
  live_through({.max_calls = 3});
}

TEST_CASE("every task has an end when tasks are withdrawn or wait too long", "[simulation]") {
  auto coverage = live_through({.withdrawals = 50, .overdue = 30});
  CHECK(coverage["withdrawn"] > seeds);
  CHECK(coverage["waited too long"] > seeds);
  CHECK(coverage["withdrawn before it was asked"] > seeds / 10);
  live_through({.remote = false, .withdrawals = 50, .overdue = 30});
}

TEST_CASE("every task has an end when leases are called in and workers die", "[simulation]") {
  auto coverage = live_through({.reclaims = 10, .deaths = 3, .endings = 5});
  CHECK(coverage["died with several"] > seeds / 30);
  CHECK(coverage["reclaimed"] > seeds);
  live_through({.max_calls = 2, .reclaims = 30, .deaths = 20, .endings = 5});
}

TEST_CASE("every task has an end when requests are refused and leases end before they are used", "[simulation]") {
  auto coverage = live_through({.refusals = 20, .lost_leases = 20, .full_ports = 15});
  for (const auto* what : {"refused", "refused for all", "lease had ended", "dead on arrival", "port full"})
    CHECK(coverage[what] > seeds);
}

TEST_CASE("a task that failed and may run again does not wait while a lease of its shape is idle", "[simulation]") {
  for (const bool remote : {true, false}) {
    auto coverage = live_through({.remote = remote, .failures = 30});
    CHECK(coverage["failed"] > seeds);
  }
  live_through({.max_calls = 3, .reclaims = 10, .failures = 30});
}

TEST_CASE("every task has an end when all of this comes together", "[simulation]") {
  for (const bool remote : {true, false})
    live_through({.remote = remote,
                  .shapes = 3,
                  .withdrawals = 20,
                  .reclaims = 20,
                  .deaths = 10,
                  .overdue = 10,
                  .refusals = 5,
                  .lost_leases = 5,
                  .full_ports = 2,
                  .failures = 10});
}
