#include <gpuactors/agent/usage.hpp>

namespace gpuactors {

namespace {

v1::Metric::Kind to_wire(MetricKind kind) {
  switch (kind) {
  case MetricKind::counter:
    return v1::Metric::COUNTER;
  case MetricKind::histogram:
    return v1::Metric::HISTOGRAM;
  case MetricKind::gauge:
    break;
  }
  return v1::Metric::GAUGE;
}

} // namespace

void add_metrics(v1::HolderUsage::Entry& entry, const std::vector<MetricValue>& metrics) {
  for (const auto& [name, kind, value, help, histogram] : metrics) {
    auto* metric = entry.add_metrics();
    metric->set_name(name);
    metric->set_kind(to_wire(kind));
    metric->set_value(value);
    metric->set_help(help);
    metric->mutable_bounds()->Add(histogram.bounds.begin(), histogram.bounds.end());
    metric->mutable_counts()->Add(histogram.counts.begin(), histogram.counts.end());
  }
}

void add_counts(google::protobuf::RepeatedPtrField<v1::CallStats>& to, const std::vector<CallCounts>& counts) {
  for (const auto& of_one : counts) {
    auto& stats = *to.Add();
    stats.set_name(of_one.name);
    stats.mutable_ran()->Add(of_one.ran.counts.begin(), of_one.ran.counts.end());
    stats.set_nanoseconds(of_one.ran.nanoseconds);
    stats.mutable_waited()->Add(of_one.waited.counts.begin(), of_one.waited.counts.end());
    stats.set_waited_nanoseconds(of_one.waited.nanoseconds);
    stats.set_failed(of_one.failed);
    stats.set_late(of_one.late);
  }
}

} // namespace gpuactors
