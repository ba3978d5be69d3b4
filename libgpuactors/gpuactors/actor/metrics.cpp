#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/metric_name.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <stdexcept>

namespace gpuactors {

namespace {

std::string_view in_words(MetricKind kind) {
  return kind == MetricKind::gauge ? "gauge" : "counter";
}

} // namespace

bool operator==(const MetricValue& a, const MetricValue& b) noexcept {
  return a.name == b.name && a.kind == b.kind
         && std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}

void Metrics::Counter::add(double amount) {
  if (!(amount >= 0) || !std::isfinite(amount))
    throw std::invalid_argument{fmt::format("a counter cannot grow by {}: 0 or more is expected", amount)};
  cell_->fetch_add(amount, std::memory_order_relaxed);
}

Result<Metrics::Gauge> Metrics::gauge(const std::string& name) {
  GPUACTORS_LET(cell, find_or_make(name, MetricKind::gauge));
  return Gauge{std::move(cell)};
}

Result<Metrics::Counter> Metrics::counter(const std::string& name) {
  GPUACTORS_LET(cell, find_or_make(name, MetricKind::counter));
  return Counter{std::move(cell)};
}

std::vector<MetricValue> Metrics::values() const {
  std::vector<MetricValue> result;
  const std::lock_guard lock{mutex_};
  result.reserve(entries_.size());
  for (const auto& [name, entry] : entries_)
    result.push_back({name, entry.kind, entry.cell->load(std::memory_order_relaxed)});
  return result;
}

Result<Metrics::Cell> Metrics::find_or_make(const std::string& name, MetricKind kind) {
  GPUACTORS_TRY(check_metric_name(name));
  const std::lock_guard lock{mutex_};
  if (const auto known = entries_.find(name); known != entries_.end()) {
    if (known->second.kind != kind)
      return fail(Errc::invalid_argument, fmt::format("metric {} is a {} already, and cannot be a {}", name,
                                                      in_words(known->second.kind), in_words(kind)));
    return known->second.cell;
  }
  if (entries_.size() >= limits::metrics_per_actor)
    return fail(Errc::invalid_argument, fmt::format("metric {} would be one too many: an actor may publish {}", name,
                                                    limits::metrics_per_actor));
  return entries_.emplace(name, Entry{kind, std::make_shared<std::atomic<double>>(0)}).first->second.cell;
}

} // namespace gpuactors
