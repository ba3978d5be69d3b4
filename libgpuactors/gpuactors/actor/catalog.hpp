// Descriptions of a program's registered types, for other processes.
#pragma once

#include <gpuactors/actor/registry.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// Returns all types of a registry, by name, with the descriptions of their messages.
[[nodiscard]] v1::TypeCatalog describe_types(const TypeRegistry& registry);

/// Checks a program's own catalog against the limits of its receivers.
/// @returns `invalid_argument`, with the limit.
[[nodiscard]] Result<void> check_catalog(const v1::TypeCatalog& catalog);

/// Returns the ownership in a description; `any` for a value that this version does not know.
[[nodiscard]] Ownership ownership_of(const v1::ActorDescription& actor) noexcept;

} // namespace gpuactors
