#include "utc.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <type_traits>

namespace gpuactors::cli {

namespace {

/// Formats a time, with as many digits of a second as `Unit` has.
template <class Unit>
std::string utc_by(std::chrono::system_clock::time_point when, const char* between, const char* end) {
  const auto time = std::chrono::floor<Unit>(when);
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto seconds = fmt::gmtime(std::chrono::system_clock::to_time_t(second));
  constexpr int digits = std::is_same_v<Unit, std::chrono::milliseconds> ? 3 : 6;
  return fmt::format("{:%Y-%m-%d}{}{:%H:%M:%S}.{:0{}}{}", seconds, between, seconds, (time - second).count(), digits,
                     end);
}

} // namespace

std::string utc_for_people(std::chrono::system_clock::time_point time) {
  return utc_by<std::chrono::milliseconds>(time, " ", "");
}

std::string utc_for_programs(std::chrono::system_clock::time_point time) {
  return utc_by<std::chrono::microseconds>(time, "T", "Z");
}

std::chrono::system_clock::time_point from_unix_ns(std::int64_t nanoseconds) noexcept {
  return std::chrono::system_clock::time_point{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds{nanoseconds})};
}

std::chrono::system_clock::time_point from_unix_s(std::int64_t seconds) noexcept {
  return std::chrono::system_clock::time_point{std::chrono::seconds{seconds}};
}

} // namespace gpuactors::cli
