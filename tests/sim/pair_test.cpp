// Two brokers, of which one stands by, over simulated histories: a network that is cut in each direction, processes
// that die, freeze and come back with or without their files.
#include <support/catch.hpp>

#include <sim/pair.hpp>

#include <cstdlib>
#include <iostream>

#ifdef CAF_MAJOR_VERSION
#error "the cores have come to include CAF"
#endif

namespace {

using simulation::PairCoverage;
using simulation::PairOptions;
using namespace std::chrono_literals;

/// GPUACTORS_SIMULATION_SEEDS asks for more, where there is time.
const std::uint64_t seeds = [] {
  const auto* asked = std::getenv("GPUACTORS_SIMULATION_SEEDS");
  return asked != nullptr ? std::stoull(asked) : 300;
}();

void check(const std::vector<std::string>& none) {
  for (const auto& one : none)
    UNSCOPED_INFO(one);
  CHECK(none.empty());
}

void live_through(std::uint64_t seed, PairOptions options, PairCoverage& coverage) {
  INFO("seed " << seed);
  const auto* traced = std::getenv("GPUACTORS_SIMULATION_TRACE"); // the seed of a history to look at
  const bool trace = traced != nullptr && traced == std::to_string(seed);
  options.nodes = 1 + seed % 5;
  options.votes = seed % 4 == 0 ? 1 : 0;
  simulation::Pair pair{seed, options, coverage, trace ? &std::cerr : nullptr};
  pair.live(90s);
  pair.heal();
  check(pair.disagreements());
  check(pair.violations());
}

PairCoverage live_through(const PairOptions& options) {
  PairCoverage coverage;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    live_through(seed, options, coverage);
  if (std::getenv("GPUACTORS_SIMULATION_TRACE") != nullptr)
    for (const auto& [what, times] : coverage)
      std::cerr << what << ": " << times << '\n';
  return coverage;
}

} // namespace

TEST_CASE("of two brokers one serves when a network that was cut is whole again", "[simulation]") {
  auto coverage = live_through({.cuts = 12});
  for (const auto* what : {"taken over", "two serve", "given way"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("of two brokers one serves whatever dies and comes back", "[simulation]") {
  auto coverage = live_through({.deaths = 12});
  for (const auto* what : {"taken over", "power lost"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("of two brokers one serves whatever freezes and goes on", "[simulation]") {
  auto coverage = live_through({.freezes = 12});
  for (const auto* what : {"taken over", "two serve", "given way"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("of two brokers one serves after anything", "[simulation]") {
  auto coverage = live_through({.cuts = 8, .deaths = 6, .freezes = 6});
  for (const auto* what : {"taken over", "two serve", "given way"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("a broker whose file is lost replaces no copy", "[simulation]") {
  auto coverage = live_through({.cuts = 4, .deaths = 4, .freezes = 2, .lost_files = 2});
  for (const auto* what : {"file lost", "taken over"})
    CHECK(coverage[what] > seeds / 8);
}

TEST_CASE("of two brokers the one that is left serves, if most of the nodes are", "[simulation]") {
  auto coverage = live_through({.cuts = 5, .deaths = 4, .freezes = 4, .one_stays_away = true});
  for (const auto* what : {"taken over", "nobody can serve", "taken over with an old copy"})
    CHECK(coverage[what] > seeds / 32);
}
