// Times in UTC, as subcommands print them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpuactors::cli {

/// Formats a time for people: "2026-11-21 14:20:07.512".
[[nodiscard]] std::string utc_for_people(std::chrono::system_clock::time_point time);

/// Formats a time for programs: "2026-11-21T14:20:07.512345Z".
[[nodiscard]] std::string utc_for_programs(std::chrono::system_clock::time_point time);

/// Return the time that is this many nanoseconds, or seconds, after the beginning of 1970.
[[nodiscard]] std::chrono::system_clock::time_point from_unix_ns(std::int64_t nanoseconds) noexcept;
[[nodiscard]] std::chrono::system_clock::time_point from_unix_s(std::int64_t seconds) noexcept;

} // namespace gpuactors::cli
