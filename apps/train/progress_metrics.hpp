// What an actor that trains publishes: its loss, and how far it is.
#pragma once

#include "training_run.hpp"

#include <gpuactors/actor/metrics.hpp>

namespace train {

/// The metrics train_loss and train_epochs, and train_steps_total and train_rows_total for what was learnt in this life
/// of its actor. Of several members of a group each publishes its part of the loss and of the rows.
class ProgressMetrics {
public:
  /// Throws what `value_or_throw` does: one of these names is taken.
  explicit ProgressMetrics(gpuactors::Metrics& metrics)
    : loss_(gpuactors::value_or_throw(metrics.gauge("train_loss"))),
      epochs_(gpuactors::value_or_throw(metrics.gauge("train_epochs"))),
      steps_(gpuactors::value_or_throw(metrics.counter("train_steps_total"))),
      rows_(gpuactors::value_or_throw(metrics.counter("train_rows_total"))) {
    // nop
  }

  void note(const StepReport& report) {
    if (!report.losses.empty())
      loss_.set(report.losses.back());
    epochs_.set(static_cast<double>(report.epochs));
    steps_.add(static_cast<double>(report.losses.size()));
    rows_.add(static_cast<double>(report.rows));
  }

private:
  gpuactors::Metrics::Gauge loss_;
  gpuactors::Metrics::Gauge epochs_;
  gpuactors::Metrics::Counter steps_;
  gpuactors::Metrics::Counter rows_;
};

} // namespace train
