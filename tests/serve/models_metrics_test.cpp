// The text of metrics, of numbers that the test says.
#include <apps/serve/models/metrics.hpp>
#include <support/catch.hpp>

#include <string>

using namespace std::chrono_literals;
using namespace serve;

TEST_CASE("a histogram counts each duration in its bucket, bounds included, and what is longer than all", "[serve]") {
  Histogram histogram;
  for (const auto duration : {gpuactors::Duration{-1ms}, gpuactors::Duration{100us}, gpuactors::Duration{101us},
                              gpuactors::Duration{1ms}, gpuactors::Duration{300s}, gpuactors::Duration{301s}})
    histogram.add(duration);
  CHECK(histogram.at_most(0) == 2); // 0.1 ms; what is below zero counts as nothing
  CHECK(histogram.at_most(1) == 3);
  CHECK(histogram.at_most(3) == 4);
  CHECK(histogram.at_most(Histogram::bounds.size() - 2) == 4);
  CHECK(histogram.at_most(Histogram::bounds.size() - 1) == 5);
  CHECK(histogram.count() == 6);
  CHECK(histogram.sum() == Approx(601.001201));
}

TEST_CASE("latencies are histograms with cumulative buckets, one for each version", "[serve]") {
  DispatcherSnapshot version;
  version.statistics.name = "digits";
  version.statistics.version = "3";
  for (const auto milliseconds : {1, 2, 2, 40})
    version.latencies.request.add(std::chrono::milliseconds{milliseconds});
  version.latencies.queue.add(20s);
  const auto text = render_metrics({version}, {{"digits", true}, {"late", false}});
  const auto has = [&text](const std::string& line) {
    INFO(text);
    CHECK(text.find(line + "\n") != std::string::npos);
  };
  has("gpuactors_serve_model_ready{model=\"digits\"} 1");
  has("gpuactors_serve_model_ready{model=\"late\"} 0");
  has("# TYPE gpuactors_serve_request_seconds histogram");
  has("gpuactors_serve_request_seconds_bucket{model=\"digits\",version=\"3\",le=\"0.0005\"} 0");
  has("gpuactors_serve_request_seconds_bucket{model=\"digits\",version=\"3\",le=\"0.001\"} 1");
  has("gpuactors_serve_request_seconds_bucket{model=\"digits\",version=\"3\",le=\"0.0025\"} 3");
  has("gpuactors_serve_request_seconds_bucket{model=\"digits\",version=\"3\",le=\"0.05\"} 4");
  has("gpuactors_serve_request_seconds_bucket{model=\"digits\",version=\"3\",le=\"+Inf\"} 4");
  has("gpuactors_serve_request_seconds_sum{model=\"digits\",version=\"3\"} 0.045");
  has("gpuactors_serve_request_seconds_count{model=\"digits\",version=\"3\"} 4");
  has("gpuactors_serve_queue_seconds_bucket{model=\"digits\",version=\"3\",le=\"10\"} 0");
  has("gpuactors_serve_queue_seconds_bucket{model=\"digits\",version=\"3\",le=\"+Inf\"} 1");
  has("gpuactors_serve_infer_seconds_count{model=\"digits\",version=\"3\"} 0");
}

TEST_CASE("requests that were refused are counted by why", "[serve]") {
  DispatcherSnapshot version;
  version.statistics.name = "digits";
  version.statistics.version = "3";
  version.counts.refused_full = 1;
  version.counts.refused_late = 2;
  version.refused_without_replica = 3;
  const auto text = render_metrics({version}, {});
  int count = 0;
  for (const auto* why : {"full", "late", "no_replica"}) {
    INFO(text);
    const auto line = std::string{"gpuactors_serve_refused{model=\"digits\",version=\"3\",why=\""} + why + "\"} ";
    CHECK(text.find(line + std::to_string(++count) + "\n") != std::string::npos);
  }
}
