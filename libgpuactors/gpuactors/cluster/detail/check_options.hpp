// Checks of what programs ask for: `Options` of tasks and of actors, connections. Pure. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/options.hpp>

namespace gpuactors::detail {

/// @returns `invalid_argument` for options that only actors have (the caller relies on an option that would be
///          ignored), `max_retries` below -1, a negative `max_calls`, and a negative `queue_timeout`.
[[nodiscard]] Result<void> check_for_task(const Options& options);

/// @returns `invalid_argument` for options that only tasks have, `max_restarts` or `max_task_retries` below -1,
///          `max_task_retries` without `max_restarts`, `get_if_exists` or `name_space` without a name, and a negative
///          `queue_timeout`.
[[nodiscard]] Result<void> check_for_actor(const Options& options);

/// @returns `invalid_argument` for options that belong into `GroupOptions`. Those of the life of a task or actor are
///          fine: programs describe the bundle and what runs in it by the same `Options`.
[[nodiscard]] Result<void> check_for_bundle(const Options& options);

/// @returns `invalid_argument` for options of the one node "local" beside nodes of the program's own.
[[nodiscard]] Result<void> check_nodes(const EmbedOptions& options);

/// @returns `invalid_argument` for an address that is none, and for times outside of their limits.
[[nodiscard]] Result<void> check_connection(const ConnectOptions& options);

} // namespace gpuactors::detail
