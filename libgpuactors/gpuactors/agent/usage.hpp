// Reports of what holders use and publish, as messages.
#pragma once

#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/wire/messages.hpp>

#include <vector>

namespace gpuactors {

/// Adds metrics to a report.
void add_metrics(v1::HolderUsage::Entry& entry, const std::vector<MetricValue>& metrics);

/// Divides reports among messages that each fit on a link: about `limits::usage_bytes`. None for no reports. Pure.
[[nodiscard]] std::vector<v1::HolderUsage> in_messages(std::vector<v1::HolderUsage::Entry> entries);

} // namespace gpuactors
