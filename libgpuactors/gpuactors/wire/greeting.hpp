// Greeting: the line of text with which each side of a connection begins, which says what it speaks. Internal to the
// layers of processes. This line is the one thing that never changes: programs of all releases have to understand it.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// What a program speaks, in "gpuactors revisions OLDEST NEWEST release RELEASE caf CAF". Later releases may add words,
/// which are ignored. The line is longer than a header of CAF's protocol: releases from before there were greetings
/// take it for a broken one at once.
struct Greeting {
  /// Revisions of the messages between processes, as in base/revisions.hpp.
  std::uint32_t oldest = 0;
  std::uint32_t newest = 0;
  std::string release;
  /// The version of CAF's protocol: all processes of a cluster need the same.
  std::uint64_t caf = 0;

  friend bool operator==(const Greeting&, const Greeting&) = default;
};

/// The longest line that is one, with its end.
inline constexpr std::size_t greeting_most = 200;

/// That of this program.
[[nodiscard]] Greeting own_greeting();

/// Returns the line, with its end.
[[nodiscard]] std::string to_line(const Greeting& greeting);

/// Reads a line without its end. @returns nothing if it is none.
[[nodiscard]] std::optional<Greeting> read_greeting(std::string_view line);

/// Returns whether `text` may be the beginning of a line, or all of it, with its end or without.
[[nodiscard]] bool may_be_greeting(std::string_view text);

/// Returns the revision that two programs use with each other.
/// @param who the other one, as the beginning of a sentence ("it").
/// @returns `unsupported` if there is none, with both releases and which of the two has to be upgraded.
[[nodiscard]] Result<std::uint32_t> agree(const Greeting& own, const Greeting& other, std::string_view who);

/// Says the same of a program that was built before there were revisions.
[[nodiscard]] Error before_revisions(const Greeting& own, std::string_view who);

} // namespace gpuactors::detail
