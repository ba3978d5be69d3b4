#include <gpuactors/agent/core/usage_reports.hpp>
#include <gpuactors/base/limits.hpp>

#include <utility>

namespace gpuactors {

namespace {

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
