// The ledger's answers: one event for every change that a holder or a waiting request must know.
#pragma once

#include <gpuactors/base/error.hpp>
#include <gpuactors/ledger/lease.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// The answer to a request or a group, now or later.
struct Event {
  enum class Kind : std::uint8_t {
    /// `lease` (or `bundles`, for a group) is held from now on.
    granted,
    /// It waits; `reason` says for what.
    pending,
    /// No node could ever satisfy it; `reason` names the constraint and what the best node has.
    infeasible,
    /// It was refused or its wait ended; `code` and `reason` say why.
    rejected,
    /// Its holder released it, or withdrew it while it waited (then there is no `lease`).
    released,
    /// It was revoked: its node, device or group is gone.
    lost,
  };

  Kind kind = Kind::granted;
  /// The request this is about; none when it is about a group.
  RequestId request;
  /// The group this is about; none when it is about a request.
  GroupId group;
  /// With granted, and with released and lost if it had been granted.
  std::optional<Lease> lease;
  /// With a group's grant: one for each bundle that it now has, in order, including those it had before.
  std::vector<BundleGrant> bundles;
  Errc code = Errc::none;
  std::string reason;
};

/// Returns "granted", "pending", ... Any thread.
[[nodiscard]] std::string_view to_string(Event::Kind kind) noexcept;

} // namespace gpuactors
