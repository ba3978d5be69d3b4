// Actors that have no name, and go by their number on the command line.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Whether the actor has no name, and its number is meant. Only who has none is known by the number, for a name may
/// look like one.
[[nodiscard]] inline bool is_nameless(const v1::ActorInfo& actor, std::string_view number) {
  return actor.name().empty() && std::to_string(actor.id()) == number;
}

} // namespace gpuactors::cli
