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

/// The address by which a process that listens at `listen` is known to `other`.
/// @param told "HOST:PORT" that the operator has named; empty: none.
/// @returns also `invalid_argument` for one that is no such address.
[[nodiscard]] Result<Endpoint> advertised(const std::string& told, const Endpoint& listen, const Endpoint& other);

/// Whether a process that listens there does so at all addresses of its machine.
[[nodiscard]] bool is_any_address(const std::string& host) noexcept;

} // namespace gpuactors::detail
