// How repetitions become one row.
#include <apps/bench/harness.hpp>
#include <support/catch.hpp>

using namespace gpuactors::bench;

TEST_CASE("a ratio is the median of the ratios of neighbours, not the ratio of the medians") {
  Row row;
  summarize(row, {1, 9, 4}, {1, 3, 4});
  CHECK(row.value == 4);
  CHECK(row.floor == 3);
  CHECK(row.ratio == 1);
  CHECK(row.least == 1);
  CHECK(row.most == 3);
}

TEST_CASE("without a floor the extremes are those of the value by its median") {
  Row row;
  summarize(row, {2, 8, 4}, {});
  CHECK(row.value == 4);
  CHECK(row.floor == 0);
  CHECK(row.ratio == 0);
  CHECK(row.least == 0.5);
  CHECK(row.most == 2);
}

TEST_CASE("value and floor take turns, after one of each that does not count") {
  double values = 100;
  double floors = 1'000;
  const auto row = measure(
      "row", "us", 3, [&] { return values++; }, [&] { return floors *= 2; });
  CHECK(row.name == "row");
  CHECK(row.value == 102);
  CHECK(row.floor == 8'000);
  CHECK(row.ratio == 102.0 / 8'000);
}

TEST_CASE("the middle of an even number is the upper one of the two") {
  CHECK(median({4, 1, 3, 2}) == 3);
  CHECK(median({7}) == 7);
}

TEST_CASE("a row keeps to its bounds by what is better, more or less") {
  Row row;
  row.ratio = 1.2;
  CHECK(row.holds());
  row.bound = 1.15;
  CHECK_FALSE(row.holds());
  row.at_most = false;
  CHECK(row.holds());
  row.value = 4;
  row.peer = 2;
  row.peer_bound = 2.5;
  CHECK_FALSE(row.holds());
}
