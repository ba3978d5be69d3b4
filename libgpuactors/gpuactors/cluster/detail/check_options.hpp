// What of `Options` has a meaning for tasks, for actors, and for processes of their own. Pure. Internal to the cluster
// layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/options.hpp>

namespace gpuactors::detail {

/// @returns `invalid_argument` for what only actors have: it would be ignored, and whoever set it counts on it.
[[nodiscard]] Result<void> check_for_task(const Options& options);

/// @returns `invalid_argument` for what only tasks have, and for a negative number of restarts that is not -1.
[[nodiscard]] Result<void> check_for_actor(const Options& options);

/// @returns `invalid_argument` for a name that no variable can have, one that is not for users to set, a value with a
///          zero byte, or more than `limits::environment_bytes`.
[[nodiscard]] Result<void> check_environment(const std::map<std::string, std::string>& environment);

} // namespace gpuactors::detail
