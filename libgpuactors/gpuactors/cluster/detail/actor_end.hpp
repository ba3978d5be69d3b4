// Waiting for the end of an actor. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/core.hpp>

#include <memory>

namespace gpuactors::detail {

/// Asks the broker to tell when the actor has ended for good.
/// @param cell is told, too; may be null.
[[nodiscard]] Future<ActorEnd> await_end(ClusterCore& core, const v1::ActorHandle& actor,
                                         std::shared_ptr<ActorCell> cell);

} // namespace gpuactors::detail
