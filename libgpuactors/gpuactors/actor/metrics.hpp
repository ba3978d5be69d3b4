// Metrics that an actor publishes: numbers for the cluster's page for Prometheus (`gpuactors metrics`) and its state.
//
//   class Trainer : public gpuactors::Actor {
//     ...
//     gpuactors::Metrics::Gauge loss_ = gpuactors::value_or_throw(metrics().gauge("loss"));
//     gpuactors::Metrics::Counter steps_ = gpuactors::value_or_throw(metrics().counter("steps_total"));
//   };
//   ... loss_.set(0.25); steps_.add();
#pragma once

#include <gpuactors/base/result.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

enum class MetricKind : std::uint8_t {
  gauge,
  counter,
};

/// A metric's name and its value at one moment.
struct MetricValue {
  std::string name;
  MetricKind kind = MetricKind::gauge;
  double value = 0;

  /// Bit by bit: a value that is no number stays what it is.
  friend bool operator==(const MetricValue& a, const MetricValue& b) noexcept;
};

/// What one actor publishes in one life; see `Actor::metrics`. Its worker reports changed values once a second
/// (`limits::usage_report`), as they are then. Any thread.
class Metrics {
  using Cell = std::shared_ptr<std::atomic<double>>;

public:
  /// A number that goes up and down: a loss, a rate, the length of a queue. 0 until it is set. Any value will do, also
  /// none (NaN) and the infinite ones.
  ///
  /// Copies are the same gauge. Any thread; costs one atomic operation, never waits and sends nothing. May outlive its
  /// actor: then nobody reads it.
  class Gauge {
  public:
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

  /// A number that only grows: steps, rows, bytes. It starts at 0 in each life of its actor, as counters of Prometheus
  /// may: its `rate` and `increase` see that and go on.
  ///
  /// Copies are the same counter. Threads, costs and lifetime as for `Gauge`.
  class Counter {
  public:
    /// Adds `amount`. One that is negative or no finite number is a programming error and throws std::invalid_argument,
    /// which fails the call.
    void add(double amount = 1);

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

  /// Returns the gauge of this name; makes it when it is asked for first.
  /// @param name `[a-zA-Z_][a-zA-Z0-9_]*`, under which Prometheus gets it; not one that begins with "gpuactors_".
  /// @returns `invalid_argument` if the name is none, or is that of a counter, or for more metrics than
  ///          `limits::metrics_per_actor`.
  Result<Gauge> gauge(const std::string& name);

  /// Returns the counter of this name, by the same rules. By custom, its name ends in "_total".
  Result<Counter> counter(const std::string& name);

  /// Returns all values as they are now, in the order of names.
  [[nodiscard]] std::vector<MetricValue> values() const;

private:
  struct Entry {
    MetricKind kind;
    Cell cell;
  };

  Result<Cell> find_or_make(const std::string& name, MetricKind kind);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

} // namespace gpuactors
