#include <gpuactors/actor/call_stats.hpp>

#include <algorithm>
#include <iterator>

namespace gpuactors {

namespace {

constexpr auto bounds = [] {
  constexpr double in_a_second = 1e9;
  std::array<std::uint64_t, limits::call_seconds.size()> result{};
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::uint64_t>(limits::call_seconds[i] * in_a_second + 0.5);
  return result;
}();

static_assert(std::is_sorted(bounds.begin(), bounds.end()));

} // namespace

void TimeStats::add(Duration time) noexcept {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  // Most calls are short: the search begins there.
  const auto bound = std::find_if(bounds.begin(), bounds.end(), [&](auto limit) { return nanoseconds <= limit; });
  counts_[static_cast<std::size_t>(bound - bounds.begin())].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

TimeCounts TimeStats::counts() const {
  TimeCounts result;
  std::transform(counts_.begin(), counts_.end(), result.counts.begin(),
                 [](const auto& count) { return count.load(std::memory_order_relaxed); });
  result.nanoseconds = nanoseconds_.load(std::memory_order_relaxed);
  return result;
}

void CallStats::ran(Duration time, bool failed) noexcept {
  ran_.add(time);
  if (failed)
    failed_.fetch_add(1, std::memory_order_relaxed);
}

CallCounts CallStats::counts() const {
  CallCounts result;
  result.name = name_;
  result.ran = ran_.counts();
  result.waited = waited_.counts();
  result.failed = failed_.load(std::memory_order_relaxed);
  result.late = late_.load(std::memory_order_relaxed);
  return result;
}

CallTable::CallTable(const std::vector<std::string>& names) {
  for (const auto& name : names)
    stats_.emplace_back(name);
}

std::vector<CallCounts> CallTable::counts() const {
  std::vector<CallCounts> result;
  for (const auto& stats : stats_) {
    auto counts = stats.counts();
    const auto& ran = counts.ran.counts;
    if (counts.late > 0 || std::any_of(ran.begin(), ran.end(), [](auto count) { return count > 0; }))
      result.push_back(std::move(counts));
  }
  return result;
}

} // namespace gpuactors
