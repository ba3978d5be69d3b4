// What holders publish and how their calls went, as parts of reports.
#pragma once

#include <gpuactors/actor/call_stats.hpp>
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/v1/control.pb.h>

#include <vector>

namespace gpuactors {

/// Adds metrics to a report.
void add_metrics(v1::HolderUsage::Entry& entry, const std::vector<MetricValue>& metrics);

/// Adds counts of methods or tasks to a report.
void add_counts(google::protobuf::RepeatedPtrField<v1::CallStats>& to, const std::vector<CallCounts>& counts);

} // namespace gpuactors
