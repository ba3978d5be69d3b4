// LinkMiddleman: the actor that opens CAF's connections and ports in this project's way: connections pass a `LinkGate`,
// and the size of messages is limited. Internal to the layer.
#pragma once

#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/detail/link_gate.hpp>
#include <gpuactors/wire/lanes.hpp>

namespace gpuactors::detail {

/// Spawns the actor. It accepts the messages of CAF's own middleman (publish, connect); end it with an exit message.
/// Established connections are entered into `lanes`.
/// @param patience how long the other side of a connection that was closed may take none of the bytes that are left.
caf::strong_actor_ptr spawn_link_middleman(caf::actor_system& system, std::shared_ptr<LinkGate> gate,
                                           std::shared_ptr<Lanes> lanes, Duration patience);

} // namespace gpuactors::detail
