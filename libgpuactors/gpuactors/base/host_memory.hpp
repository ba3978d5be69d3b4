// Host memory as a resource of a node: its place among the custom resources, and amounts of resources in words.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuactors {

/// The name of host memory among the custom resources of nodes, requests and leases, whose rules it follows. One unit
/// of its amount is one byte, and not 1/10000 of one, so that 64 bits hold the sums of any cluster. Users set it
/// through fields and options of its own.
inline constexpr std::string_view host_memory_resource = "host_memory";

/// Returns the amount of the resource for `bytes` bytes. Pure; any thread.
[[nodiscard]] constexpr Share host_memory_amount(std::uint64_t bytes) noexcept {
  return Share{static_cast<std::int64_t>(bytes)};
}

/// Returns the bytes of host memory in a map from names of resources to amounts or units, such as that of a lease.
template <class Amounts>
[[nodiscard]] std::uint64_t host_memory_in(const Amounts& amounts) {
  const auto it = amounts.find(std::string{host_memory_resource});
  if (it == amounts.end())
    return 0;
  if constexpr (requires { it->second.units(); })
    return static_cast<std::uint64_t>(it->second.units());
  else
    return static_cast<std::uint64_t>(it->second);
}

/// Renders an amount of a resource for people: "2", or "1.5 GiB" of host memory. Pure; any thread.
[[nodiscard]] std::string amount_of_resource(std::string_view resource, Share amount);

/// Checks the name of a custom resource that a user names.
/// @returns `invalid_argument` for the name of host memory; `instead` is the option or field to use for that.
Result<void> check_not_host_memory(std::string_view resource, std::string_view instead);

/// Checks an amount of host memory in bytes; `what` names it.
/// @returns `invalid_argument` above `limits::host_memory_bytes`.
Result<void> check_host_memory(std::string_view what, std::uint64_t bytes);

} // namespace gpuactors
