// How calls are counted.
#include <gpuactors/actor/call_stats.hpp>

#include <support/catch.hpp>

#include <thread>
#include <vector>

using namespace gpuactors;
using namespace std::chrono_literals;

TEST_CASE("a call is counted at the first bound that it does not exceed", "[actor]") {
  CallStats stats{"m"};
  stats.ran(0ns, false);
  stats.ran(10us, false);
  stats.ran(10us + 1ns, false);
  stats.ran(100s, false);
  stats.ran(100s + 1ns, true);
  stats.ran(-1ns, false); // a clock that went back
  const auto counts = stats.counts();
  CHECK(counts.name == "m");
  const auto& ran = counts.ran.counts;
  CHECK(ran.front() == 3);
  CHECK(ran[1] == 1);
  CHECK(ran[ran.size() - 2] == 1);
  CHECK(ran.back() == 1);
  CHECK(counts.ran.nanoseconds == 200'000'020'002);
  CHECK(counts.waited == TimeCounts{});
  CHECK(counts.failed == 1);
  CHECK(counts.late == 0);
}

TEST_CASE("each bound is exact, and the next nanosecond is beyond it", "[actor]") {
  for (std::size_t i = 0; i < limits::call_seconds.size(); ++i) {
    const std::chrono::nanoseconds bound{static_cast<std::int64_t>(limits::call_seconds[i] * 1e9 + 0.5)};
    CallStats stats{"m"};
    stats.ran(bound, false);
    stats.ran(bound + 1ns, false);
    CHECK(stats.counts().ran.counts[i] == 1);
    CHECK(stats.counts().ran.counts[i + 1] == 1);
  }
}

TEST_CASE("what a call has waited is counted apart from what it takes", "[actor]") {
  CallStats stats{"m"};
  stats.waited(20us);
  stats.waited(20us);
  stats.ran(1us, false);
  const auto counts = stats.counts();
  CHECK(counts.waited.counts[1] == 2);
  CHECK(counts.waited.nanoseconds == 40'000);
  CHECK(counts.ran.counts[0] == 1);
  CHECK(counts.ran.nanoseconds == 1'000);
}

TEST_CASE("a table tells of those that were called, or would have been", "[actor]") {
  CallTable table{{"a", "b", "c"}};
  CHECK(table.counts().empty());
  table.find(0)->ran(1ms, false);
  table.find(2)->was_late();
  REQUIRE(table.counts().size() == 2);
  CHECK(table.counts()[0].name == "a");
  CHECK(table.counts()[1].name == "c");
  CHECK(table.counts()[1].late == 1);
  CHECK(table.find(3) == nullptr);
}

TEST_CASE("threads count together", "[actor]") {
  CallTable table{{"a"}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 1'000; ++k)
        table.find(0)->ran(1us, k % 2 == 0);
    });
  for (auto& thread : threads)
    thread.join();
  const auto counts = table.counts().front();
  CHECK(counts.ran.counts.front() == 4'000);
  CHECK(counts.failed == 2'000);
  CHECK(counts.ran.nanoseconds == 4'000'000);
}
