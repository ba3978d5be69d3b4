// Reports of what holders use and publish.
#include <gpuactors/agent/usage.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

TEST_CASE("a report has all metrics of a holder, with their kinds and values", "[agent]") {
  v1::HolderUsage::Entry entry;
  add_metrics(entry, {{"loss", MetricKind::gauge, -0.5}, {"steps", MetricKind::counter, 7}});
  REQUIRE(entry.metrics_size() == 2);
  CHECK(entry.metrics(0).name() == "loss");
  CHECK(entry.metrics(0).kind() == v1::Metric::GAUGE);
  CHECK(entry.metrics(0).value() == -0.5);
  CHECK(entry.metrics(1).kind() == v1::Metric::COUNTER);
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
