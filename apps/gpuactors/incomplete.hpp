// What of a cluster's state has not fitted into one answer: it is said, and not taken for what is not there.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Whether a field of a state, such as "actors", has all of its entries. Pure.
[[nodiscard]] bool is_whole(const v1::ClusterState& state, std::string_view field);

/// Whether something is in a cluster, as far as one state tells.
enum class Presence : std::uint8_t { there, absent, unknown };

/// Returns what follows for something that was looked for in a field of a state. Pure.
[[nodiscard]] Presence presence_of(bool found, const v1::ClusterState& state, std::string_view field);

/// Returns one line that names the fields that are not whole; nothing if all are. Pure.
[[nodiscard]] std::string incomplete_in_words(const v1::ClusterState& state);

/// Says the same on standard error.
void say_what_is_incomplete(const v1::ClusterState& state);

} // namespace gpuactors::cli
