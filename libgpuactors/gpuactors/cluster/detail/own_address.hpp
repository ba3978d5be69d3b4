// Under which address others reach this machine. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/endpoint.hpp>

#include <string>

namespace gpuactors::detail {

/// The address of this machine from which it reaches `to`. Sends nothing.
/// @returns `unavailable` when the host cannot be found or there is no way to it.
[[nodiscard]] Result<std::string> address_towards(const Endpoint& to);

} // namespace gpuactors::detail
