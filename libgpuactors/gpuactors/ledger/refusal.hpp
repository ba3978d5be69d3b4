// The first constraint of a request that a pool does not meet.
#pragma once

#include <gpuactors/ledger/pool.hpp>

#include <cstdint>
#include <string>

namespace gpuactors::ledger_detail {

/// The constraints, in the order in which they are checked.
enum class Constraint : std::uint8_t {
  name,
  /// Of tasks or actors.
  type,
  draining,
  label,
  /// The type of the accelerator.
  accelerator,
  devices,
  memory,
  cpus,
  resource,
  suspended,
  none
};

/// The first constraint that a pool does not meet.
struct Refusal {
  Constraint constraint = Constraint::none;
  /// How much of it the pool has.
  std::int64_t has = 0;
  /// The label or resource.
  std::string name;
};

/// Returns what in a pool refuses a request; no constraint if it fits. `new_lease` is false for a pool that was already
/// set aside, which a draining node still serves.
[[nodiscard]] Refusal refusal_of(const Pool& pool, const ResourceRequest& request, const Lens& lens, bool new_lease);

} // namespace gpuactors::ledger_detail
