#include <gpuactors/agent/usage.hpp>
#include <gpuactors/base/limits.hpp>

#include <utility>

namespace gpuactors {

void add_metrics(v1::HolderUsage::Entry& entry, const std::vector<MetricValue>& metrics) {
  for (const auto& [name, kind, value] : metrics) {
    auto* metric = entry.add_metrics();
    metric->set_name(name);
    metric->set_kind(kind == MetricKind::counter ? v1::Metric::COUNTER : v1::Metric::GAUGE);
    metric->set_value(value);
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

} // namespace gpuactors
