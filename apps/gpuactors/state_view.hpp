// Subcommands that show a part of the cluster's state, and the parts of JSON that they share.
#pragma once

#include "cluster_options.hpp"
#include "command.hpp"
#include "json.hpp"

#include <gpuactors/gpuactors.hpp>

#include <iosfwd>
#include <string>

namespace gpuactors::cli {

/// A subcommand that shows a part of the state: its name, its help texts, and how it shows the state.
struct StateView {
  std::string name;
  std::string description;
  /// The help of --json, which says what the array holds.
  std::string json_help;
  std::string footer;
  /// Whether the subcommand makes sense with an embedded cluster.
  ClusterOptions::Kinds kinds;
  /// Prints the state for people.
  void (*print)(const v1::ClusterState& state, std::ostream& out);
  /// Returns the state for programs: one array of objects.
  Json (*json)(const v1::ClusterState& state);
  /// Keeps of the state what is shown of one, whose name is given; null: all is shown at all times.
  Result<void> (*keep_one)(v1::ClusterState& state, const std::string& name) = nullptr;
  /// The help of that name.
  std::string one_help{};
  /// Whether people are told that they see an embedded cluster, who may have expected a running one.
  bool tells_embedded = false;
};

/// Adds the subcommand to `program`.
Command add_state_view(CLI::App& program, const StateView& view);

/// Returns the devices of a lease: objects with index, share and memory_bytes.
[[nodiscard]] Json devices_of(const v1::Lease& lease);

/// Returns amounts of countable resources by their names, without host memory, which has a field of its own.
[[nodiscard]] Json amounts_of(const google::protobuf::Map<std::string, std::int64_t>& units);

/// Returns an actor as `actors` and `spawn` show it.
[[nodiscard]] Json json_of(const v1::ActorInfo& actor);

} // namespace gpuactors::cli
