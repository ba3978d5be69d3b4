// Reports of what holders use and publish and of how calls went, as messages.
#pragma once

#include <gpuactors/actor/call_stats.hpp>
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/wire/messages.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// Adds metrics to a report.
void add_metrics(v1::HolderUsage::Entry& entry, const std::vector<MetricValue>& metrics);

/// Adds counts of methods or tasks to a report.
void add_counts(google::protobuf::RepeatedPtrField<v1::CallStats>& to, const std::vector<CallCounts>& counts);

/// Divides reports among messages that each fit on a link: about `limits::usage_bytes`. None for no reports. Pure.
[[nodiscard]] std::vector<v1::HolderUsage> in_messages(std::vector<v1::HolderUsage::Entry> entries);

/// How the tasks of a node went: the sum over its workers, each of which counts from its own start. Pure.
class TaskTotals {
public:
  /// Takes what a worker has counted since its start.
  void take(std::uint64_t worker, const google::protobuf::RepeatedPtrField<v1::CallStats>& counts);

  /// Forgets a worker that has ended. What it counted stays in the sums.
  void ended(std::uint64_t worker);

  [[nodiscard]] bool empty() const noexcept {
    return totals_.empty();
  }

  /// Returns a report of all; it does not say yet of which node.
  [[nodiscard]] v1::HolderUsage report() const;

private:
  using ByName = std::map<std::string, v1::CallStats>;

  ByName totals_;
  /// What each worker has last said.
  std::map<std::uint64_t, ByName> last_;
};

} // namespace gpuactors
