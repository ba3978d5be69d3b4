// What a spawn that takes long waits for, in words. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// As the options of the spawn have it; the name may be empty.
struct SpawnedName {
  std::string_view name_space;
  std::string_view name;
  std::string_view type;
};

/// Pure.
/// @param state as the broker has answered, or why it has not.
/// @param origin of the actor, as in `ActorHandle`.
[[nodiscard]] std::string spawn_notice(const Result<v1::ClusterState>& state, std::uint64_t origin,
                                       const SpawnedName& name, Duration waited);

} // namespace gpuactors::detail
