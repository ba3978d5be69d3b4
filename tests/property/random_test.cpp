// Random histories: ledger and naive model must agree after every call.
//
// GPUACTORS_PROPERTY_SEED sets the first seed, GPUACTORS_PROPERTY_HISTORIES how many follow it.
#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <property/history.hpp>

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const auto* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

} // namespace

TEST_CASE("over random histories the ledger does what a naive scheduler does") {
  const auto first = from_environment("GPUACTORS_PROPERTY_SEED", 1);
  const auto count = from_environment("GPUACTORS_PROPERTY_HISTORIES", 100'000);
  std::cout << "seeds " << first << " to " << first + count - 1 << "\n";
  history::Coverage coverage;
  for (auto seed = first; seed < first + count; ++seed) {
    const auto history = history::make(seed);
    // Shown also when the ledger aborts.
    INFO("seed " << seed);
    const auto trouble = history::run(history, &coverage);
    if (trouble.empty())
      continue;
    const auto small = history::shrink(history);
    FAIL("seed " << seed << ", shrunk to:\n" << history::scenario(small) << history::run(small));
  }
  for (const auto& [kind, number] : coverage.events)
    std::cout << to_string(kind) << " " << number << ", ";
  const std::pair<const char*, std::uint64_t> seen[] = {{"from the queue", coverage.from_queue},
                                                        {"borrowed", coverage.borrowed},
                                                        {"in bundles", coverage.in_bundles},
                                                        {"groups", coverage.groups},
                                                        {"torn", coverage.torn},
                                                        {"mended", coverage.mended},
                                                        {"kept of lost leases", coverage.remains},
                                                        {"released then", coverage.remains_released},
                                                        {"shrunk", coverage.shrunk},
                                                        {"rebuilt", coverage.rebuilt},
                                                        {"calls with a reservation", coverage.reservations},
                                                        {"requests it held back", coverage.held_back},
                                                        {"waited for drained nodes", coverage.drained},
                                                        {"served then", coverage.drained_served},
                                                        {"refused then", coverage.drained_refused},
                                                        {"served by other types", coverage.types_served},
                                                        {"refused by other types", coverage.types_refused},
                                                        {"waited for a quota", coverage.over_quota},
                                                        {"served then", coverage.over_quota_served},
                                                        {"refused then", coverage.over_quota_refused},
                                                        {"beyond their quota", coverage.beyond_quota},
                                                        {"for a type", coverage.typed},
                                                        {"waited for a type", coverage.waited_for_type},
                                                        {"type not found", coverage.type_not_found}};
  for (const auto& [what, number] : seen)
    std::cout << what << " " << number << ", ";
  std::cout << "done\n";
  if (count < 1000)
    return;
  CHECK(coverage.events.size() == 6);
  for (const auto& [what, number] : seen) {
    INFO(what);
    CHECK(number > 50);
  }
}

TEST_CASE("a history can be run as a scenario") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const auto scenario = history::scenario(history::make(seed));
    std::istringstream in(scenario);
    std::ostringstream out;
    const auto done = gpuactors::run_plan(in, out);
    INFO("seed " << seed << "\n" << scenario << (done ? "" : done.error().message()));
    REQUIRE(done);
  }
}
