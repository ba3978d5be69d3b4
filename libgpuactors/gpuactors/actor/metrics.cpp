#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/metric_name.hpp>
#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpuactors {

namespace {

Failure moved_from(const std::string& name) {
  return fail(Errc::invalid_argument, fmt::format("the metric to be published as {} was moved from", name));
}

std::string_view in_words(MetricKind kind) {
  switch (kind) {
  case MetricKind::gauge:
    return "gauge";
  case MetricKind::counter:
    return "counter";
  case MetricKind::histogram:
    break;
  }
  return "histogram";
}

/// Whether one of two metrics is a histogram and the other has the name of one of its parts.
bool are_one_in_parts(const std::string& a, MetricKind kind_of_a, const std::string& b, MetricKind kind_of_b) {
  const auto is_part = [](const std::string& part, const std::string& whole, MetricKind kind) {
    const auto parts = histogram_parts(whole);
    return kind == MetricKind::histogram && std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  return is_part(a, b, kind_of_b) || is_part(b, a, kind_of_a);
}

} // namespace

namespace detail {

/// The numbers behind a `Metrics::Histogram` and its copies.
class HistogramCell {
public:
  explicit HistogramCell(const std::vector<double>& bounds) : bounds_(bounds), counts_(bounds.size() + 1) {
    // nop
  }

  [[nodiscard]] const std::vector<double>& bounds() const noexcept {
    return bounds_;
  }

  void observe(double value) noexcept {
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    counts_[static_cast<std::size_t>(bound - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  [[nodiscard]] double sum() const noexcept {
    return sum_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] HistogramValue value() const {
    HistogramValue result{bounds_, {}};
    for (const auto& count : counts_)
      result.counts.push_back(count.load(std::memory_order_relaxed));
    return result;
  }

private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

} // namespace detail

bool operator==(const MetricValue& a, const MetricValue& b) noexcept {
  return a.name == b.name && a.kind == b.kind
         && std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value) && a.help == b.help
         && a.histogram.bounds == b.histogram.bounds && a.histogram.counts == b.histogram.counts;
}

void Metrics::Counter::add(double amount) noexcept {
  if (amount >= 0 && std::isfinite(amount))
    cell_->fetch_add(amount, std::memory_order_relaxed);
}

void Metrics::Histogram::observe(double value) noexcept {
  if (std::isfinite(value))
    cell_->observe(value);
}

Metrics::Histogram::Histogram(const std::vector<double>& bounds)
  : cell_(std::make_shared<detail::HistogramCell>(bounds)) {
  // nop
}

Result<Metrics::Gauge> Metrics::gauge(const std::string& name, std::string_view help) {
  GPUACTORS_LET(entry, find_or_enter(name, {MetricKind::gauge, std::string{help}}));
  return Gauge{entry->cell};
}

Result<Metrics::Counter> Metrics::counter(const std::string& name, std::string_view help) {
  GPUACTORS_LET(entry, find_or_enter(name, {MetricKind::counter, std::string{help}}));
  return Counter{entry->cell};
}

Result<Metrics::Histogram> Metrics::histogram(const std::string& name, const std::vector<double>& bounds,
                                              std::string_view help) {
  GPUACTORS_TRY(check_histogram_bounds(name, bounds));
  GPUACTORS_LET(entry, find_or_enter(name, {MetricKind::histogram, std::string{help}}, bounds));
  if (entry->histogram->bounds() != bounds)
    return fail(Errc::invalid_argument, fmt::format("histogram {} has other bounds already: {}", name,
                                                    fmt::join(entry->histogram->bounds(), ", ")));
  return Histogram{entry->histogram};
}

Result<void> Metrics::publish(const std::string& name, const Gauge& gauge, std::string_view help) {
  if (gauge.cell_ == nullptr)
    return moved_from(name);
  return publish(name, Entry{MetricKind::gauge, std::string{help}, gauge.cell_});
}

Result<void> Metrics::publish(const std::string& name, const Counter& counter, std::string_view help) {
  if (counter.cell_ == nullptr)
    return moved_from(name);
  return publish(name, Entry{MetricKind::counter, std::string{help}, counter.cell_});
}

Result<void> Metrics::publish(const std::string& name, const Histogram& histogram, std::string_view help) {
  if (histogram.cell_ == nullptr)
    return moved_from(name);
  GPUACTORS_TRY(check_histogram_bounds(name, histogram.cell_->bounds()));
  return publish(name, Entry{MetricKind::histogram, std::string{help}, nullptr, histogram.cell_});
}

Result<void> Metrics::publish(const std::string& name, Entry wanted) {
  const auto cell = wanted.cell;
  const auto histogram = wanted.histogram;
  GPUACTORS_LET(entry, find_or_enter(name, std::move(wanted)));
  if (entry->cell != cell || entry->histogram != histogram)
    return fail(Errc::invalid_argument,
                fmt::format("another {} is published as {} already", in_words(entry->kind), name));
  return {};
}

std::vector<MetricValue> Metrics::values() const {
  std::vector<MetricValue> result;
  const std::lock_guard lock{mutex_};
  result.reserve(entries_.size());
  for (const auto& [name, entry] : entries_)
    if (entry.kind == MetricKind::histogram)
      result.push_back({name, entry.kind, entry.histogram->sum(), entry.help, entry.histogram->value()});
    else
      result.push_back({name, entry.kind, entry.cell->load(std::memory_order_relaxed), entry.help});
  return result;
}

Result<const Metrics::Entry*> Metrics::find_or_enter(const std::string& name, Entry wanted,
                                                     const std::vector<double>& bounds) {
  const auto kind = wanted.kind;
  const auto& help = wanted.help;
  GPUACTORS_TRY(check_metric_name(name));
  if (help.size() > limits::metric_help_bytes)
    return fail(Errc::invalid_argument, fmt::format("the help of metric {} has {} bytes: at most {} are allowed", name,
                                                    help.size(), limits::metric_help_bytes));
  if (!is_utf8(help))
    return fail(Errc::invalid_argument, fmt::format("the help of metric {} is not UTF-8", name));
  const std::lock_guard lock{mutex_};
  if (const auto known = entries_.find(name); known != entries_.end()) {
    if (known->second.kind != kind)
      return fail(Errc::invalid_argument, fmt::format("metric {} is a {} already, and cannot be a {}", name,
                                                      in_words(known->second.kind), in_words(kind)));
    if (known->second.help.empty())
      known->second.help = help;
    return &known->second;
  }
  for (const auto& [other, entry] : entries_)
    if (are_one_in_parts(name, kind, other, entry.kind))
      return fail(
          Errc::invalid_argument,
          fmt::format("metric {} and histogram {} cannot be of one actor: Prometheus takes one for a part of the "
                      "other",
                      kind == MetricKind::histogram ? other : name, kind == MetricKind::histogram ? name : other));
  if (entries_.size() >= limits::metrics_per_actor)
    return fail(Errc::invalid_argument, fmt::format("metric {} would be one too many: an actor may publish {}", name,
                                                    limits::metrics_per_actor));
  if (kind == MetricKind::histogram && wanted.histogram == nullptr)
    wanted.histogram = std::make_shared<detail::HistogramCell>(bounds);
  else if (kind != MetricKind::histogram && wanted.cell == nullptr)
    wanted.cell = std::make_shared<std::atomic<double>>(0);
  return &entries_.emplace(name, std::move(wanted)).first->second;
}

} // namespace gpuactors
