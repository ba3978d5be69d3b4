// What a spawn that takes long waits for, in words. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Pure.
/// @param state as the broker has answered, or why it has not.
/// @param origin of the actor, as in `ActorHandle`.
/// @param name its name, or its type if it has none.
[[nodiscard]] std::string spawn_notice(const Result<v1::ClusterState>& state, std::uint64_t origin,
                                       std::string_view name, Duration waited);

} // namespace gpuactors::detail
