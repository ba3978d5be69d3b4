// Subcommands that show a part of the cluster's state, and the parts of JSON that they share.
#pragma once

#include "cluster_options.hpp"
#include "command.hpp"
#include "json.hpp"

#include <gpuactors/gpuactors.hpp>

#include <iosfwd>
#include <string>

namespace gpuactors::cli {

/// What such a subcommand is called, says, and how it shows a state.
struct StateView {
  std::string name;
  std::string description;
  /// Of --json: what the array holds.
  std::string json_help;
  std::string footer;
  /// Whether an embedded cluster has any of it.
  ClusterOptions::Kinds kinds;
  /// For people.
  void (*print)(const v1::ClusterState& state, std::ostream& out);
  /// For programs: one array of objects.
  Json (*json)(const v1::ClusterState& state);
};

/// Adds the subcommand to `program`.
Command add_state_view(CLI::App& program, const StateView& view);

/// The devices of a lease: objects with index, share and memory_bytes.
[[nodiscard]] Json devices_of(const v1::Lease& lease);

/// Amounts of countable things by their names.
[[nodiscard]] Json amounts_of(const google::protobuf::Map<std::string, std::int64_t>& units);

/// The devices of a lease for people: "0 (0.5, 512 MiB), 1 (1, 1 GiB)"; "none" without any.
[[nodiscard]] std::string devices_in_words(const v1::Lease& lease);

/// "a=1, b=0.5" in the order of the names.
[[nodiscard]] std::string amounts_in_words(const google::protobuf::Map<std::string, std::int64_t>& units);

/// An actor as `actors` and `spawn` show it.
[[nodiscard]] Json json_of(const v1::ActorInfo& actor);

} // namespace gpuactors::cli
