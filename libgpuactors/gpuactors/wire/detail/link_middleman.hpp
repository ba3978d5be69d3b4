// LinkMiddleman: the actor that opens CAF's connections and ports, with the ways of this project: connections come
// through a `LinkGate`, and no message is larger than it may be. Internal to the layer.
#pragma once

#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/detail/link_gate.hpp>
#include <gpuactors/wire/lanes.hpp>

namespace gpuactors::detail {

/// Spawns it. It takes the messages that CAF's own middleman takes (publish, connect); end it with an exit message.
/// Connections that stand are entered into `lanes`.
caf::strong_actor_ptr spawn_link_middleman(caf::actor_system& system, std::shared_ptr<LinkGate> gate,
                                           std::shared_ptr<Lanes> lanes);

} // namespace gpuactors::detail
