// Writes what actors publish as text for Prometheus.
#pragma once

#include "metrics_text.hpp"

namespace gpuactors::cli {

/// Writes a family for each name under which actors publish, with a sample for each actor that does. A name under which
/// some publish gauges and others counters is a family of no type.
void write_published(MetricsWriter& out, const v1::ClusterState& state);

} // namespace gpuactors::cli
