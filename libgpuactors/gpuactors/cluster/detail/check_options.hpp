// What of `Options` has a meaning for tasks, and what for actors. Pure. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/options.hpp>

namespace gpuactors::detail {

/// @returns `invalid_argument` for what only actors have: it would be ignored, and whoever set it counts on it.
[[nodiscard]] Result<void> check_for_task(const Options& options);

/// @returns `invalid_argument` for what only tasks have, and for a negative number of restarts that is not -1.
[[nodiscard]] Result<void> check_for_actor(const Options& options);

} // namespace gpuactors::detail
