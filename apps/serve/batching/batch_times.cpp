#include "batch_times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace serve::batching {

using gpuactors::Duration;
using gpuactors::Share;

namespace {

/// How much the latest measurement counts: after 16 of them, nine tenths of what was before are forgotten.
constexpr double weight = 1.0 / 8;

double nanoseconds(Duration duration) {
  return std::chrono::duration<double, std::nano>{duration}.count();
}

} // namespace

std::size_t BatchTimes::class_of(std::uint64_t rows) noexcept {
  const auto exponent = static_cast<std::size_t>(std::bit_width(std::max<std::uint64_t>(rows, 1) - 1));
  return std::min(exponent, classes - 1);
}

void BatchTimes::add(Share share, std::uint64_t rows, Duration took) {
  auto& entry = rows_[share][class_of(rows)];
  const auto time = std::max(nanoseconds(took), 0.0);
  if (!entry.measured) {
    entry = Entry{true, time, 0};
    return;
  }
  entry.deviation += weight * (std::abs(time - entry.mean) - entry.deviation);
  entry.mean += weight * (time - entry.mean);
}

double BatchTimes::estimate(const Row& row, std::size_t size) {
  // The longest of the sizes up to this one, and what the largest measured of them says in proportion.
  double floor = 0;
  double scaled = -1;
  for (std::size_t i = 0; i <= size; ++i) {
    if (row[i].measured)
      scaled = floor = std::max(floor, row[i].bound());
    else if (scaled >= 0)
      scaled *= 2;
  }
  if (row[size].measured)
    return floor;
  const auto larger = std::find_if(row.begin() + static_cast<std::ptrdiff_t>(size), row.end(),
                                   [](const Entry& entry) { return entry.measured; });
  if (larger == row.end())
    return std::max(scaled, 0.0);
  const auto bound = scaled < 0 ? larger->bound() : std::min(scaled, larger->bound());
  return std::max(floor, bound);
}

Duration BatchTimes::estimate(Share share, std::uint64_t rows) const {
  if (rows == 0 || rows_.empty())
    return Duration::zero();
  const auto size = class_of(rows);
  auto row = rows_.upper_bound(share);
  double time = 0;
  if (row != rows_.begin())
    time = estimate(std::prev(row)->second, size);
  else
    time = estimate(row->second, size) * static_cast<double>(row->first.units())
           / static_cast<double>(std::max<std::int64_t>(share.units(), 1));
  // A century is as good as any longer time, and can be added to a point in time.
  constexpr double most = 3e18;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>{std::min(time, most)});
}

bool BatchTimes::measured(Share share, std::uint64_t rows) const {
  const auto row = rows_.find(share);
  return row != rows_.end() && row->second[class_of(rows)].measured;
}

} // namespace serve::batching
