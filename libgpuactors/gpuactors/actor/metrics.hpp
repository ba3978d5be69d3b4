// Metrics that an actor publishes: numbers for the cluster's page for Prometheus (`gpuactors metrics`) and its state.
//
//   class Trainer : public gpuactors::Actor {
//     ...
//     gpuactors::Metrics::Gauge loss_{metrics(), "loss", "Of the last step."};
//     gpuactors::Metrics::Counter steps_{metrics(), "steps_total"};
//     gpuactors::Metrics::Histogram rows_{metrics(), "rows", {1, 4, 16, 64}};
//   };
//   ... loss_.set(0.25); steps_.add(); rows_.observe(12);
#pragma once

#include <gpuactors/base/result.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors {

namespace detail {
class HistogramCell;
}

enum class MetricKind : std::uint8_t {
  gauge,
  counter,
  histogram,
};

/// How many values were observed, by size.
struct HistogramValue {
  /// Upper bounds, rising.
  std::vector<double> bounds = {};
  /// For each bound, how many values were at most that and above the bound before it; last, how many were above all
  /// bounds.
  std::vector<std::uint64_t> counts = {};
};

/// A metric's name and its value at one moment.
struct MetricValue {
  std::string name;
  MetricKind kind = MetricKind::gauge;
  /// Of a histogram, the sum of the values.
  double value = 0;
  std::string help = {};
  HistogramValue histogram = {};

  /// Compares values bit by bit, so that a NaN equals itself.
  friend bool operator==(const MetricValue& a, const MetricValue& b) noexcept;
};

/// The metrics that one actor publishes in one life; see `Actor::metrics`. Its worker reports changed values once a
/// second (`limits::usage_report`), as they are then. Any thread.
class Metrics {
  using Cell = std::shared_ptr<std::atomic<double>>;

public:
  /// A number that goes up and down: a loss, a rate, the length of a queue. 0 until it is set. Any value is allowed,
  /// including NaN and infinity.
  ///
  /// Copies are the same gauge. Any thread; costs one atomic operation, never waits and sends nothing. May outlive its
  /// actor: then nobody reads it.
  class Gauge {
  public:
    /// Makes a gauge that nobody reads before `Metrics::publish`: for code that knows no actor.
    Gauge() : cell_(std::make_shared<std::atomic<double>>(0)) {
      // nop
    }

    /// Does what `Metrics::gauge` does; throws its error, which in an actor's constructor is that of `spawn`.
    Gauge(Metrics& metrics, const std::string& name, std::string_view help = {})
      : Gauge(value_or_throw(metrics.gauge(name, help))) {
      // nop
    }

    void set(double value) noexcept {
      cell_->store(value, std::memory_order_relaxed);
    }

    /// Adds `amount`, which may be negative.
    void add(double amount) noexcept {
      cell_->fetch_add(amount, std::memory_order_relaxed);
    }

    [[nodiscard]] double value() const noexcept {
      return cell_->load(std::memory_order_relaxed);
    }

  private:
    friend class Metrics;

    explicit Gauge(Cell cell) : cell_(std::move(cell)) {
      // nop
    }

    Cell cell_;
  };

  /// A number that only grows: steps, rows, bytes. It restarts at 0 in each life of its actor, which Prometheus' `rate`
  /// and `increase` handle.
  ///
  /// Copies are the same counter. Threads, costs and lifetime as for `Gauge`.
  class Counter {
  public:
    /// As for `Gauge`.
    Counter() : cell_(std::make_shared<std::atomic<double>>(0)) {
      // nop
    }
    Counter(Metrics& metrics, const std::string& name, std::string_view help = {})
      : Counter(value_or_throw(metrics.counter(name, help))) {
      // nop
    }

    /// Adds `amount`; ignores a negative or non-finite one.
    void add(double amount = 1) noexcept;

    [[nodiscard]] double value() const noexcept {
      return cell_->load(std::memory_order_relaxed);
    }

  private:
    friend class Metrics;

    explicit Counter(Cell cell) : cell_(std::move(cell)) {
      // nop
    }

    Cell cell_;
  };

  /// Values by size: the rows of batches, the lengths of texts, seconds. Prometheus computes quantiles of many actors
  /// together from it. It restarts without values in each life of its actor. (The library itself counts how long calls
  /// take.)
  ///
  /// Copies are the same histogram. Threads and lifetime as for `Gauge`; costs a search through the bounds and two
  /// atomic operations.
  class Histogram {
  public:
    /// As for `Gauge`. `publish` refuses the bounds that `histogram` refuses, and with them one without any.
    explicit Histogram(const std::vector<double>& bounds = {});
    Histogram(Metrics& metrics, const std::string& name, const std::vector<double>& bounds, std::string_view help = {})
      : Histogram(value_or_throw(metrics.histogram(name, bounds, help))) {
      // nop
    }

    /// Counts `value`; ignores a non-finite one.
    void observe(double value) noexcept;

  private:
    friend class Metrics;

    explicit Histogram(std::shared_ptr<detail::HistogramCell> cell) : cell_(std::move(cell)) {
      // nop
    }

    std::shared_ptr<detail::HistogramCell> cell_;
  };

  /// Returns the gauge of this name, creating it on the first call.
  /// @param name the name in Prometheus, `[a-zA-Z_][a-zA-Z0-9_]*`; must not begin with "gpuactors_".
  /// @param help a description in UTF-8, for people who look at the page; the first one given counts.
  /// @returns `invalid_argument` for an invalid name or that of a metric of another kind, for more metrics than
  ///          `limits::metrics_per_actor`, and for help beyond `limits::metric_help_bytes`.
  Result<Gauge> gauge(const std::string& name, std::string_view help = {});

  /// Returns the counter of this name, by the rules of `gauge`. By custom, its name ends in "_total".
  Result<Counter> counter(const std::string& name, std::string_view help = {});

  /// Returns the histogram of this name, by the rules of `gauge`. By custom, its name ends in its unit: "_seconds",
  /// "_bytes".
  /// @param bounds 1 to `limits::histogram_bounds` finite numbers, each more than the one before it: the upper bounds
  ///        of the ranges whose values are counted together. Values above the last bound are counted too.
  /// @returns also `invalid_argument` for invalid bounds, or others than the histogram has.
  Result<Histogram> histogram(const std::string& name, const std::vector<double>& bounds, std::string_view help = {});

  /// Publishes what was made without a name, with the values that it has by now. A metric may have several names.
  /// @param name and help by the rules of `gauge`, `counter` and `histogram`.
  /// @returns their errors; `invalid_argument` if another metric has the name.
  Result<void> publish(const std::string& name, const Gauge& gauge, std::string_view help = {});
  Result<void> publish(const std::string& name, const Counter& counter, std::string_view help = {});
  Result<void> publish(const std::string& name, const Histogram& histogram, std::string_view help = {});

  /// Returns all values as they are now, in the order of names.
  [[nodiscard]] std::vector<MetricValue> values() const;

private:
  struct Entry {
    MetricKind kind;
    std::string help;
    /// Of a gauge or counter; null: to be made.
    Cell cell = {};
    /// Of a histogram; likewise.
    std::shared_ptr<detail::HistogramCell> histogram = {};
  };

  /// Finds a metric, or enters `wanted`.
  /// @param bounds of a histogram that is to be made.
  Result<const Entry*> find_or_enter(const std::string& name, Entry wanted, const std::vector<double>& bounds = {});
  Result<void> publish(const std::string& name, Entry wanted);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

} // namespace gpuactors
