#include <gpuactors/agent/usage.hpp>
#include <gpuactors/base/limits.hpp>

#include <utility>

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

using Counts = google::protobuf::RepeatedField<std::uint64_t>;

void add_growth(Counts& total, const Counts& now, const Counts& before) {
  if (total.size() < now.size())
    total.Resize(now.size(), 0);
  for (int i = 0; i < now.size(); ++i)
    total[i] += now[i] - (i < before.size() ? before[i] : 0);
}

/// Adds to `total` by how much `now` is more than `before`.
void add_growth(v1::CallStats& total, const v1::CallStats& now, const v1::CallStats& before) {
  total.set_name(now.name());
  add_growth(*total.mutable_ran(), now.ran(), before.ran());
  add_growth(*total.mutable_waited(), now.waited(), before.waited());
  total.set_nanoseconds(total.nanoseconds() + now.nanoseconds() - before.nanoseconds());
  total.set_waited_nanoseconds(total.waited_nanoseconds() + now.waited_nanoseconds() - before.waited_nanoseconds());
  total.set_failed(total.failed() + now.failed() - before.failed());
  total.set_late(total.late() + now.late() - before.late());
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

std::vector<v1::HolderUsage> in_messages(std::vector<v1::HolderUsage::Entry> entries) {
  std::vector<v1::HolderUsage> result;
  std::size_t bytes = limits::usage_bytes;
  for (auto& entry : entries) {
    if (bytes >= limits::usage_bytes) {
      result.emplace_back();
      bytes = 0;
    }
    bytes += entry.ByteSizeLong();
    *result.back().add_entries() = std::move(entry);
  }
  return result;
}

void TaskTotals::take(std::uint64_t worker, const google::protobuf::RepeatedPtrField<v1::CallStats>& counts) {
  auto& last = last_[worker];
  for (const auto& now : counts) {
    auto& before = last[now.name()];
    add_growth(totals_[now.name()], now, before);
    before = now;
  }
}

void TaskTotals::ended(std::uint64_t worker) {
  last_.erase(worker);
}

v1::HolderUsage TaskTotals::report() const {
  v1::HolderUsage result;
  for (const auto& [name, total] : totals_)
    *result.add_tasks() = total;
  return result;
}

} // namespace gpuactors
