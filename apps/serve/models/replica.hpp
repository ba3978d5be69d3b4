// The actor behind a model: a network on its part of a device, which infers one batch after the other.
#pragma once

#include "gpuactors/serve/replica.pb.h"

#include <gpuactors/gpuactors.hpp>

namespace serve {

/// Messages between the server and its replicas.
namespace wire = gpuactors::serve;

/// The actor type that programs with this library have registered, and its methods.
inline constexpr auto replica_type = "serve/replica";
inline constexpr auto infer_method = "infer";
inline constexpr auto state_method = "state";

} // namespace serve
