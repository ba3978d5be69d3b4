// The address at which others reach this machine. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/endpoint.hpp>

#include <string>

namespace gpuactors::detail {

/// The local address from which this machine reaches `to`. Sends nothing.
/// @returns `unavailable` when the host cannot be resolved or there is no route to it.
[[nodiscard]] Result<std::string> address_towards(const Endpoint& to);

} // namespace gpuactors::detail
