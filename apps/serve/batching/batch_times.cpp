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

/// After so many measurements of others alone, a size is believed only within what they say; after each so many more,
/// it is thought to be half as much longer than smaller ones.
constexpr std::uint64_t stale_after = 128;
constexpr std::uint64_t halves_after = 1'024;

double nanoseconds(Duration duration) {
  return std::chrono::duration<double, std::nano>{duration}.count();
}

} // namespace

std::size_t BatchTimes::class_of(std::uint64_t rows) noexcept {
  const auto exponent = static_cast<std::size_t>(std::bit_width(std::max<std::uint64_t>(rows, 1) - 1));
  return std::min(exponent, classes - 1);
}

void BatchTimes::add(Share share, std::uint64_t rows, Duration took) {
  auto& row = rows_[share];
  auto& entry = row.sizes[class_of(rows)];
  const auto time = std::max(nanoseconds(took), 0.0);
  const auto believed = bound(row, class_of(rows));
  entry.last = ++row.measurements;
  if (entry.measured && believed < entry.bound() && time <= believed) {
    // What it once took was rightly not believed any more.
    entry.deviation = 0;
    entry.mean = time;
  } else if (entry.measured) {
    entry.deviation += weight * (std::abs(time - entry.mean) - entry.deviation);
    entry.mean += weight * (time - entry.mean);
  } else {
    entry.measured = true;
    entry.mean = time;
  }
  estimate(row);
}

double BatchTimes::bound(const Row& row, std::size_t size) {
  const auto& own = row.sizes[size];
  auto result = own.bound();
  // What took as long again and again does so after a quiet night, too.
  const bool moves_much = own.deviation > own.mean / 4;
  for (std::size_t i = 0; i < classes; ++i) {
    const auto& other = row.sizes[i];
    if (!other.measured || other.last <= own.last + stale_after)
      continue;
    // In proportion to a smaller one, whose rows may have been half of what its size allows.
    const auto doublings = i < size ? size - i + 1 : 0;
    const auto halvings =
        moves_much ? std::min<std::uint64_t>((other.last - own.last) / halves_after, doublings) : std::uint64_t{0};
    result = std::min(result, std::ldexp(other.bound(), static_cast<int>(doublings - halvings)));
  }
  return result;
}

void BatchTimes::estimate(Row& row) {
  // The longest of the sizes up to each one; if it was not measured, what the largest below says in proportion.
  double floor = 0;
  double scaled = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    scaled = row.sizes[i].measured ? floor = std::max(floor, bound(row, i)) : 2 * scaled;
    row.estimates[i] = scaled;
  }
  // But no longer than the next larger one that was, and as long as that where nothing below was.
  double larger = -1;
  for (auto i = classes; i-- > 0;)
    if (row.sizes[i].measured)
      larger = row.estimates[i];
    else if (larger >= 0)
      row.estimates[i] = row.estimates[i] > 0 ? std::min(row.estimates[i], larger) : larger;
}

Duration BatchTimes::estimate(Share share, std::uint64_t rows) const {
  if (rows == 0 || rows_.empty())
    return Duration::zero();
  const auto size = class_of(rows);
  auto row = rows_.upper_bound(share);
  double time = 0;
  if (row != rows_.begin())
    time = std::prev(row)->second.estimates[size];
  else
    time = row->second.estimates[size] * static_cast<double>(row->first.units())
           / static_cast<double>(std::max<std::int64_t>(share.units(), 1));
  // A century is as good as any longer time, and can be added to a point in time.
  constexpr double most = 3e18;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>{std::min(time, most)});
}

bool BatchTimes::measured(Share share, std::uint64_t rows) const {
  const auto row = rows_.find(share);
  return row != rows_.end() && row->second.sizes[class_of(rows)].measured;
}

} // namespace serve::batching
