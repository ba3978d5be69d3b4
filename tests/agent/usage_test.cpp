// Reports of what holders use and publish.
#include <gpuactors/agent/core/usage_reports.hpp>
#include <gpuactors/agent/usage.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace gpuactors;

namespace {

using Counts = google::protobuf::RepeatedPtrField<v1::CallStats>;

/// Tasks that ran so often: all failed, took a microsecond and were late as often.
Counts counts_of(const std::vector<std::pair<std::string, std::uint64_t>>& tasks) {
  std::vector<CallCounts> all;
  for (const auto& [name, ran] : tasks) {
    auto& counts = all.emplace_back();
    counts.name = name;
    counts.ran = {.counts = {ran}, .nanoseconds = 1'000 * ran};
    counts.waited = {.counts = {0, ran}, .nanoseconds = 20'000 * ran};
    counts.failed = ran;
    counts.late = ran;
  }
  Counts result;
  add_counts(result, all);
  return result;
}

std::map<std::string, std::uint64_t> ran_of(const TaskTotals& totals) {
  std::map<std::string, std::uint64_t> result;
  const auto report = totals.report();
  for (const auto& task : report.tasks())
    result[task.name()] = task.ran(0);
  return result;
}

} // namespace

TEST_CASE("a report has all metrics of a holder, with their kinds and values", "[agent]") {
  v1::HolderUsage::Entry entry;
  add_metrics(entry, {{"loss", MetricKind::gauge, -0.5}, {"steps", MetricKind::counter, 7}});
  REQUIRE(entry.metrics_size() == 2);
  CHECK(entry.metrics(0).name() == "loss");
  CHECK(entry.metrics(0).kind() == v1::Metric::GAUGE);
  CHECK(entry.metrics(0).value() == -0.5);
  CHECK(entry.metrics(1).kind() == v1::Metric::COUNTER);
}

TEST_CASE("a report has what was observed and what a metric is", "[agent]") {
  v1::HolderUsage::Entry entry;
  add_metrics(entry, {{"rows", MetricKind::histogram, 12.5, "Rows of a batch.", {{1, 8}, {3, 0, 2}}}});
  const auto& metric = entry.metrics(0);
  CHECK(metric.kind() == v1::Metric::HISTOGRAM);
  CHECK(metric.value() == 12.5);
  CHECK(metric.help() == "Rows of a batch.");
  CHECK(std::vector<double>{metric.bounds().begin(), metric.bounds().end()} == std::vector<double>{1, 8});
  CHECK(std::vector<std::uint64_t>{metric.counts().begin(), metric.counts().end()}
        == std::vector<std::uint64_t>{3, 0, 2});
}

TEST_CASE("a report has the counts of all methods that were called", "[agent]") {
  CallCounts counts;
  counts.name = "add";
  counts.ran.counts.front() = 2;
  counts.ran.counts.back() = 1;
  counts.ran.nanoseconds = 5;
  counts.waited.counts.back() = 7;
  counts.waited.nanoseconds = 6;
  counts.failed = 1;
  counts.late = 4;
  v1::HolderUsage::Entry entry;
  add_counts(*entry.mutable_methods(), {counts});
  REQUIRE(entry.methods_size() == 1);
  const auto& method = entry.methods(0);
  CHECK(method.name() == "add");
  REQUIRE(method.ran_size() == static_cast<int>(limits::call_seconds.size() + 1));
  CHECK(method.ran(0) == 2);
  CHECK(method.ran(method.ran_size() - 1) == 1);
  CHECK(method.nanoseconds() == 5);
  REQUIRE(method.waited_size() == method.ran_size());
  CHECK(method.waited(0) == 0);
  CHECK(method.waited(method.waited_size() - 1) == 7);
  CHECK(method.waited_nanoseconds() == 6);
  CHECK(method.failed() == 1);
  CHECK(method.late() == 4);
}

TEST_CASE("the tasks of a node are the sum over its workers, also over those that have ended", "[agent]") {
  TaskTotals totals;
  CHECK(totals.empty());
  totals.take(1, counts_of({{"a", 3}, {"b", 1}}));
  totals.take(2, counts_of({{"a", 10}}));
  CHECK(ran_of(totals) == std::map<std::string, std::uint64_t>{{"a", 13}, {"b", 1}});
  // Each worker says how many there were since its start.
  totals.take(1, counts_of({{"a", 5}, {"b", 1}}));
  CHECK(ran_of(totals) == std::map<std::string, std::uint64_t>{{"a", 15}, {"b", 1}});
  totals.ended(1);
  CHECK(ran_of(totals) == std::map<std::string, std::uint64_t>{{"a", 15}, {"b", 1}});
  totals.take(3, counts_of({{"b", 2}}));
  CHECK(ran_of(totals) == std::map<std::string, std::uint64_t>{{"a", 15}, {"b", 3}});
  const auto report = totals.report();
  CHECK(report.tasks(0).nanoseconds() == 15'000);
  CHECK(report.tasks(0).waited(1) == 15);
  CHECK(report.tasks(0).waited_nanoseconds() == 300'000);
  CHECK(report.tasks(0).failed() == 15);
  CHECK(report.tasks(0).late() == 15);
}

TEST_CASE("few reports are one message, none is none, and many are messages that fit on a link", "[agent]") {
  CHECK(in_messages({}).empty());
  v1::HolderUsage::Entry entry;
  for (std::size_t i = 0; i < limits::metrics_per_actor; ++i)
    add_metrics(entry, {{std::string(limits::metric_name_length, 'a'), MetricKind::counter, 1}});
  std::vector<v1::HolderUsage::Entry> entries;
  for (std::uint64_t lease = 1; lease <= 10'000; ++lease)
    entries.emplace_back(entry).set_lease(lease);
  CHECK(in_messages({entry, entry}).size() == 1);
  std::uint64_t last = 0;
  for (const auto& message : in_messages(entries)) {
    CHECK(message.ByteSizeLong() < 2 * limits::usage_bytes);
    for (const auto& part : message.entries())
      CHECK(part.lease() == ++last);
  }
  CHECK(last == entries.size());
}
