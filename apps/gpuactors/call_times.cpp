#include "call_times.hpp"

#include <gpuactors/base/clock.hpp>

#include <fmt/format.h>

#include <chrono>
#include <numeric>

namespace gpuactors::cli {

CallTimes took(const v1::CallStats& stats) {
  return {stats.ran(), to_seconds(std::chrono::nanoseconds{stats.nanoseconds()})};
}

CallTimes waited(const v1::CallStats& stats) {
  return {stats.waited(), to_seconds(std::chrono::nanoseconds{stats.waited_nanoseconds()})};
}

std::uint64_t how_many(const CallTimes& times) {
  return std::accumulate(times.counts.begin(), times.counts.end(), std::uint64_t{0});
}

std::optional<double> mean_of(const CallTimes& times) {
  const auto count = how_many(times);
  if (count == 0)
    return std::nullopt;
  return times.seconds / static_cast<double>(count);
}

std::optional<double> bound_of(const CallTimes& times, std::uint64_t percent) {
  constexpr std::uint64_t hundred = 100;
  const auto count = how_many(times);
  std::uint64_t within = 0;
  for (std::size_t i = 0; i < limits::call_seconds.size() && i < static_cast<std::size_t>(times.counts.size()); ++i) {
    within += times.counts[static_cast<int>(i)];
    if (count > 0 && within * hundred >= count * percent)
      return limits::call_seconds[i];
  }
  return std::nullopt;
}

std::string seconds_in_words(double seconds) {
  constexpr double thousand = 1e3;
  if (seconds >= 1)
    return fmt::format("{:.3g} s", seconds);
  if (seconds * thousand >= 1)
    return fmt::format("{:.3g} ms", seconds * thousand);
  return fmt::format("{:.3g} us", seconds * thousand * thousand);
}

std::string mean_in_words(const CallTimes& times) {
  const auto mean = mean_of(times);
  return mean ? seconds_in_words(*mean) : "";
}

std::string bound_in_words(const CallTimes& times, std::uint64_t percent) {
  if (how_many(times) == 0)
    return "";
  if (const auto bound = bound_of(times, percent))
    return "<= " + seconds_in_words(*bound);
  return "> " + seconds_in_words(limits::call_seconds.back());
}

std::vector<CallRow> call_rows(const v1::ClusterState& state) {
  std::vector<CallRow> rows;
  for (const auto& actor : state.actors())
    for (const auto& method : actor.methods())
      rows.push_back({&actor, actor.lease().node(), &method});
  for (const auto& node : state.nodes())
    for (const auto& task : node.tasks())
      rows.push_back({nullptr, node.node().name(), &task});
  return rows;
}

} // namespace gpuactors::cli
