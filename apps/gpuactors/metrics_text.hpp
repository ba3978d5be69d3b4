// Writes a cluster's state as text for Prometheus.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors::cli {

/// Writes the text exposition format of Prometheus, version 0.0.4: families, each with its samples.
class MetricsWriter {
public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  /// Begins a family. @param type "gauge", "counter" or "untyped".
  void family(std::string_view name, std::string_view type, std::string_view help);

  /// Adds a sample to the family that was begun last. Values of labels may have any bytes in them.
  void sample(const Labels& labels, double value);

  /// Returns the text so far.
  [[nodiscard]] const std::string& text() const noexcept {
    return text_;
  }

private:
  std::string name_;
  std::string text_;
};

/// Returns all numbers of a state as text: nodes, devices, leases, actors (those with a name one by one), groups, the
/// queue, clients, the broker's counters of events, and what actors publish. Pure; any thread.
[[nodiscard]] std::string metrics_text(const v1::ClusterState& state);

} // namespace gpuactors::cli
