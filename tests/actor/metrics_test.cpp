// What an actor publishes.
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
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

TEST_CASE("a counter ignores amounts by which it cannot grow", "[actor]") {
  Metrics metrics;
  auto rows = must(metrics.counter("rows"));
  rows.add(3);
  for (const double amount : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    rows.add(amount);
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

TEST_CASE("metrics are members that are published as they are made, or throw why they cannot be", "[actor]") {
  struct Trainer {
    Metrics& metrics;
    Metrics::Gauge loss{metrics, "loss", "Of the last step."};
    Metrics::Counter steps{metrics, "steps_total"};
    Metrics::Histogram rows{metrics, "rows", {1, 4}};
  };
  Metrics metrics;
  Trainer trainer{metrics};
  trainer.loss.set(2);
  trainer.steps.add();
  trainer.rows.observe(3);
  CHECK(metrics.values()
        == std::vector<MetricValue>{{"loss", MetricKind::gauge, 2, "Of the last step."},
                                    {"rows", MetricKind::histogram, 3, "", {{1, 4}, {0, 1, 0}}},
                                    {"steps_total", MetricKind::counter, 1}});
  CHECK_THROWS_AS((Metrics::Counter{metrics, "loss"}), FailedResult);
  CHECK_THROWS_AS((Metrics::Histogram{metrics, "sizes", {}}), FailedResult);
}

TEST_CASE("metrics that are made before they have a name are published with what they have counted", "[actor]") {
  Metrics::Gauge loss;
  Metrics::Counter steps;
  Metrics::Histogram rows{{1, 4}};
  loss.set(2);
  steps.add(3);
  rows.observe(9);
  Metrics metrics;
  must(metrics.publish("loss", loss, "Of the last step."));
  must(metrics.publish("steps_total", steps));
  must(metrics.publish("rows", rows));
  loss.add(-1);
  CHECK(metrics.values()
        == std::vector<MetricValue>{{"loss", MetricKind::gauge, 1, "Of the last step."},
                                    {"rows", MetricKind::histogram, 9, "", {{1, 4}, {0, 0, 1}}},
                                    {"steps_total", MetricKind::counter, 3}});
  // The same one again changes nothing, and has as many names as it is given.
  must(metrics.publish("loss", loss));
  must(metrics.publish("loss_too", loss));
  must(metrics.gauge("loss")).set(5);
  CHECK(metrics.values()[1].value == 5);
  CHECK(metrics.values().size() == 4);
}

TEST_CASE("what is published under a name keeps it", "[actor]") {
  Metrics metrics;
  auto loss = must(metrics.gauge("loss"));
  loss.set(1);
  CHECK(metrics.publish("loss", Metrics::Gauge{}).error().message() == "another gauge is published as loss already");
  Metrics::Counter steps;
  const auto moved = std::move(steps);
  CHECK(metrics.publish("steps", steps).error().message() // NOLINT(bugprone-use-after-move)
        == "the metric to be published as steps was moved from");
  CHECK(metrics.publish("loss", Metrics::Counter{}).error().message()
        == "metric loss is a gauge already, and cannot be a counter");
  CHECK(metrics.publish("a b", Metrics::Counter{}).error().code() == Errc::invalid_argument);
  CHECK(metrics.publish("rows", Metrics::Histogram{}).error().message()
        == "histogram rows has 0 bounds: 1 to 32 are allowed");
  CHECK(metrics.values() == std::vector<MetricValue>{{"loss", MetricKind::gauge, 1}});
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

TEST_CASE("a histogram counts values at the first bound that they do not exceed, and sums them up", "[actor]") {
  Metrics metrics;
  auto rows = must(metrics.histogram("rows", {1, 4, 16}, "Rows of a batch."));
  for (const double value : {0.0, 1.0, 1.5, 4.0, 100.0, -2.0})
    rows.observe(value);
  const auto values = metrics.values();
  REQUIRE(values.size() == 1);
  CHECK(values[0].kind == MetricKind::histogram);
  CHECK(values[0].help == "Rows of a batch.");
  CHECK(values[0].value == 104.5);
  CHECK(values[0].histogram.bounds == std::vector<double>{1, 4, 16});
  CHECK(values[0].histogram.counts == std::vector<std::uint64_t>{3, 2, 0, 1});
}

TEST_CASE("a histogram ignores values that are no finite numbers", "[actor]") {
  Metrics metrics;
  auto rows = must(metrics.histogram("rows", {1, 4}));
  rows.observe(2);
  const auto values = metrics.values();
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    rows.observe(value);
  CHECK(metrics.values() == values);
}

TEST_CASE("a histogram has the bounds that it was made with", "[actor]") {
  Metrics metrics;
  must(metrics.histogram("rows", {1, 4}));
  CHECK(metrics.histogram("rows", {1, 4}));
  const auto other = metrics.histogram("rows", {1, 5});
  REQUIRE_FALSE(other);
  CHECK(other.error().message() == "histogram rows has other bounds already: 1, 4");
  CHECK(metrics.gauge("rows").error().message() == "metric rows is a histogram already, and cannot be a gauge");
  must(metrics.gauge("loss"));
  CHECK(metrics.histogram("loss", {1}).error().message()
        == "metric loss is a gauge already, and cannot be a histogram");
}

TEST_CASE("bounds that do not rise, or are none or too many, are refused", "[actor]") {
  Metrics metrics;
  CHECK(metrics.histogram("a", {}).error().message() == "histogram a has 0 bounds: 1 to 32 are allowed");
  CHECK_FALSE(metrics.histogram("a", std::vector<double>(limits::histogram_bounds + 1)));
  CHECK(metrics.histogram("a", {1, 1}).error().message()
        == "bound 2 of histogram a is 1: a finite number above the bound before it is expected");
  CHECK_FALSE(metrics.histogram("a", {std::nan("")}));
  CHECK_FALSE(metrics.histogram("a", {1, std::numeric_limits<double>::infinity()}));
  CHECK(metrics.values().empty());
}

TEST_CASE("a metric with the name of a histogram's part is refused, whichever comes first", "[actor]") {
  Metrics metrics;
  must(metrics.histogram("rows", {1}));
  CHECK(metrics.counter("rows_count").error().message()
        == "metric rows_count and histogram rows cannot be of one actor: Prometheus takes one for a part of the other");
  must(metrics.gauge("text_sum"));
  CHECK(metrics.histogram("text", {1}).error().message()
        == "metric text_sum and histogram text cannot be of one actor: Prometheus takes one for a part of the other");
  CHECK(metrics.gauge("rows_total"));
}

TEST_CASE("the first words about a metric count, and they are short text", "[actor]") {
  Metrics metrics;
  must(metrics.gauge("loss"));
  must(metrics.gauge("loss", "Of the last step."));
  must(metrics.gauge("loss", "Of all steps."));
  CHECK(metrics.values().front().help == "Of the last step.");
  CHECK(metrics.counter("n", std::string(limits::metric_help_bytes + 1, 'a')).error().message()
        == "the help of metric n has 257 bytes: at most 256 are allowed");
  CHECK(metrics.counter("n", "\xff").error().message() == "the help of metric n is not UTF-8");
  CHECK(metrics.values().size() == 1);
}
