// Random histories: ledger and naive model must agree after every call.
//
// GPUACTORS_PROPERTY_SEED sets the first seed, GPUACTORS_PROPERTY_HISTORIES how many follow it.
#include <support/catch.hpp>

#include <property/history.hpp>

#include <cstdlib>
#include <iostream>

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const auto* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

} // namespace

TEST_CASE("over random histories the ledger does what a naive scheduler does") {
  const auto first = from_environment("GPUACTORS_PROPERTY_SEED", 1);
  const auto count = from_environment("GPUACTORS_PROPERTY_HISTORIES", 20'000);
  std::cout << "seeds " << first << " to " << first + count - 1 << "\n";
  for (auto seed = first; seed < first + count; ++seed) {
    const auto history = history::make(seed);
    // Shown also when the ledger aborts.
    INFO("seed " << seed);
    const auto trouble = history::run(history);
    if (trouble.empty())
      continue;
    const auto small = history::shrink(history);
    FAIL("seed " << seed << ", shrunk to:\n" << history::text(small) << history::run(small));
  }
}
