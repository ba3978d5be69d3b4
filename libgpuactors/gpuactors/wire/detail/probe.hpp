// A look at whether anybody listens somewhere, before CAF tries: CAF's own attempt blocks all others of the process.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>

#include <atomic>

namespace gpuactors::detail {

/// Connects by TCP and hangs up. Blocks up to `timeout`, or until `stop`.
/// @returns `unavailable` saying why: no such host, refused, no answer in time.
[[nodiscard]] Result<void> probe(const Endpoint& to, Duration timeout, const std::atomic<bool>& stop);

} // namespace gpuactors::detail
