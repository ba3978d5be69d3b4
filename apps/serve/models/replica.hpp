// The actor behind a model: by default a network on its part of a device, which infers one batch after the other.
#pragma once

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

namespace serve {

/// Messages between the server and its replicas: gpuactors/v1/serving.proto states the contract.
namespace wire = gpuactors::v1;

/// The actor type of networks, which programs with this library have registered.
inline constexpr auto network_type = "serve/replica";

/// The methods of types that can be served: the first, and one of the other two.
inline constexpr auto describe_method = "describe";
inline constexpr auto infer_method = "infer";
inline constexpr auto generate_method = "generate";

} // namespace serve
