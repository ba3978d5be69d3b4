// The types that the command line can speak for.
#pragma once

#include <gpuactors/actor/registry.hpp>

#include <string_view>

namespace gpuactors::cli {

/// The actor type `name`, if its messages are built into this program.
/// @returns `not_found`, naming the type.
Result<const ActorType*> find_actor_type(std::string_view name);

} // namespace gpuactors::cli
