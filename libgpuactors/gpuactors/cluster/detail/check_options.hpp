// Checks which `Options` apply to tasks, and which to actors. Pure. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/options.hpp>

namespace gpuactors::detail {

/// @returns `invalid_argument` for options that only actors have: the caller relies on an option that would be ignored.
[[nodiscard]] Result<void> check_for_task(const Options& options);

/// @returns `invalid_argument` for options that only tasks have, for `max_restarts` below -1, and for negative
///          `max_task_retries`.
[[nodiscard]] Result<void> check_for_actor(const Options& options);

} // namespace gpuactors::detail
