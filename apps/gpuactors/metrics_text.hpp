// Writes a cluster's state as text for Prometheus.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors::cli {

/// Writes the text exposition format of Prometheus, version 0.0.4: families, each with its samples.
class MetricsWriter {
public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  /// Begins a family. @param type "gauge", "counter", "histogram" or "untyped".
  void family(std::string_view name, std::string_view type, std::string_view help);

  /// Adds a sample to the family that was begun last. Values of labels may have any bytes in them.
  void sample(const Labels& labels, double value);

  /// Adds one histogram to the family that was begun last, with a sum of its values.
  /// @param counts for each bound, how many values lie between it and the one before it; at last, those above all.
  void histogram(const Labels& labels, const std::vector<double>& bounds, const std::vector<std::uint64_t>& counts,
                 double sum);

  /// Returns the text so far.
  [[nodiscard]] const std::string& text() const noexcept {
    return text_;
  }

private:
  void write(std::string_view suffix, const Labels& labels, double value);

  std::string name_;
  std::string text_;
};

/// Returns all numbers of a state as text: nodes, devices, leases, actors (those with a name one by one) and their
/// calls, tasks, groups, the queue, clients, the broker's counters of events, and what actors publish. Pure; any
/// thread.
[[nodiscard]] std::string metrics_text(const v1::ClusterState& state);

} // namespace gpuactors::cli
