// Streams of items from actors.
#pragma once

#include "generation.hpp"

#include <gpuactors/gpuactors.hpp>

namespace serve {

/// Calls an actor's method `generate` for each request.
[[nodiscard]] RunStream stream_from(gpuactors::ActorRef actor);

} // namespace serve
