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

/// The actor whose number is meant, which need not live any more; with the number 0 if a name is meant, as where a
/// living or ended actor has that number as its name. Asks the broker only if the argument is a number.
[[nodiscard]] Result<v1::ActorHandle> find_by_number(Cluster& cluster, const ActorArgument& argument);

/// The actor without a name whose number is meant; with the number 0 if there is none. Asks the broker only if the
/// argument is a number.
[[nodiscard]] Result<v1::ActorHandle> find_nameless(Cluster& cluster, const ActorArgument& argument);

} // namespace gpuactors::cli
