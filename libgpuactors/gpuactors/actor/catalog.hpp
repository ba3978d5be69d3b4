// What a program has registered, as others are told of it.
#pragma once

#include <gpuactors/actor/registry.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// All types of a registry, by name, with the descriptions of their messages.
[[nodiscard]] v1::TypeCatalog describe_types(const TypeRegistry& registry);

/// Checks a program's own catalog against the limits that those who are told of it have.
/// @returns `invalid_argument`, with the limit.
[[nodiscard]] Result<void> check_catalog(const v1::TypeCatalog& catalog);

/// The ownership that a description names; `any` for what this version does not know.
[[nodiscard]] Ownership ownership_of(const v1::ActorDescription& actor) noexcept;

} // namespace gpuactors
