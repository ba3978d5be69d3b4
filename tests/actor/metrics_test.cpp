// What an actor publishes.
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace gpuactors;
using gpuactors::test::must;

TEST_CASE("gauges go up and down, counters only up, and both begin at 0", "[actor]") {
  Metrics metrics;
  auto loss = must(metrics.gauge("loss"));
  auto steps = must(metrics.counter("steps_total"));
  CHECK(metrics.values()
        == std::vector<MetricValue>{{"loss", MetricKind::gauge, 0}, {"steps_total", MetricKind::counter, 0}});
  loss.set(2);
  loss.add(-0.5);
  steps.add();
  steps.add(0.25);
  CHECK(metrics.values()
        == std::vector<MetricValue>{{"loss", MetricKind::gauge, 1.5}, {"steps_total", MetricKind::counter, 1.25}});
}

TEST_CASE("a counter does not go back, and what it counted stays", "[actor]") {
  Metrics metrics;
  auto rows = must(metrics.counter("rows"));
  rows.add(3);
  for (const double amount : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(rows.add(amount), std::invalid_argument);
  CHECK(rows.value() == 3);
}

TEST_CASE("who asks for a metric twice gets the same one, but never as another kind", "[actor]") {
  Metrics metrics;
  auto one = must(metrics.gauge("a"));
  auto other = must(metrics.gauge("a"));
  one.set(7);
  CHECK(other.value() == 7);
  const auto wrong = metrics.counter("a");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() == "metric a is a gauge already, and cannot be a counter");
  CHECK(metrics.values().size() == 1);
}

TEST_CASE("a metric with a name that is none is refused", "[actor]") {
  Metrics metrics;
  CHECK(metrics.gauge("a b").error().code() == Errc::invalid_argument);
  CHECK(metrics.counter("gpuactors_x").error().code() == Errc::invalid_argument);
  CHECK(metrics.values().empty());
}

TEST_CASE("an actor publishes a bounded number of metrics", "[actor]") {
  Metrics metrics;
  for (std::size_t i = 0; i < limits::metrics_per_actor; ++i)
    must(metrics.gauge("m" + std::to_string(i)));
  const auto last = metrics.counter("one_more");
  REQUIRE_FALSE(last);
  CHECK(last.error().message() == "metric one_more would be one too many: an actor may publish 64");
  CHECK(metrics.gauge("m3"));
}

TEST_CASE("a value that is no number is the same as before, and no change", "[actor]") {
  Metrics metrics;
  must(metrics.gauge("loss")).set(std::nan(""));
  CHECK(metrics.values() == metrics.values());
  const auto before = metrics.values();
  must(metrics.gauge("loss")).set(1);
  CHECK_FALSE(metrics.values() == before);
}

TEST_CASE("threads count together, and a metric outlives what it is of", "[actor]") {
  auto metrics = std::make_unique<Metrics>();
  auto count = must(metrics->counter("n"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      auto own = must(metrics->counter("n"));
      for (int k = 0; k < 1'000; ++k)
        own.add();
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(metrics->values().front().value == 4'000);
  metrics.reset();
  count.add();
  CHECK(count.value() == 4'001);
}
