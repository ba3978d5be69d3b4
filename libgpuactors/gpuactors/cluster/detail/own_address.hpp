// The address at which others reach this machine. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/endpoint.hpp>

#include <string>

namespace gpuactors::detail {

/// The local address from which this machine reaches `to`. Sends it nothing. A host that is a name is looked up, which
/// takes as long as the system's resolver does.
/// @returns `unavailable` when the host cannot be resolved or there is no route to it.
[[nodiscard]] Result<std::string> address_towards(const Endpoint& to);
/// The same for the first of several for which there is one.
[[nodiscard]] Result<std::string> address_towards(const std::vector<Endpoint>& to);

/// The address by which a broker that listens at `listen` is known to `other`.
/// @param told "HOST:PORT" that the operator has named, as `check_advertised` lets pass; empty: none.
[[nodiscard]] Result<Endpoint> advertised(const std::string& told, const Endpoint& listen, const Endpoint& other);

/// Whether others can reach a broker by what the operator says, or nothing is said.
/// @returns `invalid_argument`, saying what would be right.
[[nodiscard]] Result<void> check_advertised(const std::string& told);

} // namespace gpuactors::detail
