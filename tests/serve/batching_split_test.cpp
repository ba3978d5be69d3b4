// Shares of requests for two versions: exact at every moment, without chance, also when they change.
#include <apps/serve/batching/traffic_split.hpp>
#include <support/catch.hpp>

#include <cstdint>
#include <string>

using serve::batching::TrafficSplit;

namespace {

/// Which of so many requests go to the second version: "..x..x".
std::string dealt(TrafficSplit& split, int requests) {
  std::string result;
  for (int i = 0; i < requests; ++i)
    result += split.next() ? 'x' : '.';
  return result;
}

} // namespace

TEST_CASE("a share is spread evenly, and the second version gets no request before it is due", "[serve]") {
  TrafficSplit split;
  CHECK(dealt(split, 5) == ".....");
  split.set(0.25);
  CHECK(split.share() == 0.25);
  CHECK(dealt(split, 12) == "...x...x...x");
  split.set(0.4);
  CHECK(dealt(split, 10) == "..x.x..x.x");
  split.set(1);
  CHECK(dealt(split, 4) == "xxxx");
  split.set(0);
  CHECK(dealt(split, 4) == "....");
}

TEST_CASE("of any number of requests, the second version has its share, rounded down", "[serve]") {
  for (const std::uint64_t millionths : {1U, 3U, 100'000U, 333'333U, 500'000U, 700'001U, 999'999U, 1'000'000U}) {
    INFO(millionths);
    TrafficSplit split;
    split.set(static_cast<double>(millionths) / 1e6);
    std::uint64_t got = 0;
    bool exact = true;
    for (std::uint64_t requests = 1; requests <= 1'000'000; ++requests) {
      got += split.next() ? 1 : 0;
      exact = exact && got == requests * millionths / 1'000'000;
    }
    CHECK(exact);
    CHECK(got == millionths);
  }
}

TEST_CASE("a share that changes keeps what is owed of whole requests, and no more", "[serve]") {
  TrafficSplit split;
  split.set(0.5);
  CHECK(dealt(split, 1) == ".");
  split.set(0.1);
  CHECK(dealt(split, 15) == "....x.........x");
  split.set(0);
  CHECK(dealt(split, 100) == std::string(100, '.'));
}

TEST_CASE("another pair of versions begins with nothing owed", "[serve]") {
  TrafficSplit split;
  split.set(0.75);
  CHECK(dealt(split, 1) == ".");
  split.restart(0.5);
  CHECK(split.share() == 0.5);
  CHECK(dealt(split, 4) == ".x.x");
}
