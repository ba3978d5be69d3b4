// The actor that an argument of the command line means: by its name, or by its number if it has no name.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace gpuactors::cli {

/// As it was typed.
struct ActorArgument {
  std::string name;
  std::string name_space;

  /// Adds NAME and --name-space. The object must outlive the parser.
  /// @returns NAME, which may be left out.
  CLI::Option* add_to(CLI::App& parser);
};

/// Whether it may be the number of an actor that has no name.
[[nodiscard]] bool is_number(const ActorArgument& argument);

/// Whether this actor is meant. Only who has no name is known by the number, for a name may look like one.
[[nodiscard]] bool is_meant(const v1::ActorInfo& actor, const ActorArgument& argument);

/// The actor that is meant, if it has ended and none that lives is meant: of several of one name the last one; null:
/// there is no such actor. A number is a name where an actor of the state has it as its name, and else also means an
/// actor that has a name. The state must live as long. Pure.
[[nodiscard]] const v1::EndedActor* find_ended(const v1::ClusterState& state, const ActorArgument& argument);

/// The actor that is meant, which need not live any more: a number is a name where a living or ended actor has it as
/// its name. Asks the broker only if the argument is a number. The key refers to the argument.
[[nodiscard]] Result<ActorKey> key_of(Cluster& cluster, const ActorArgument& argument);

/// Likewise, for an actor that lives: a number is a name unless a living actor without a name has it.
[[nodiscard]] Result<ActorKey> key_of_living(Cluster& cluster, const ActorArgument& argument);

} // namespace gpuactors::cli
