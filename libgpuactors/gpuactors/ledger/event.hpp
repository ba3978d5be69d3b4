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
    /// The request waits; `reason` says for what.
    pending,
    /// No node could ever satisfy the request; `reason` names the constraint and what the best node has. `code` is
    /// `not_found` if no node has the type that is asked for, else `infeasible`.
    infeasible,
    /// The request was refused or its wait ended; `code` and `reason` say why.
    rejected,
    /// The holder released the lease, or withdrew the waiting request (then there is no `lease`).
    released,
    /// The lease was revoked: its node, device or group is gone.
    lost,
  };

  Kind kind = Kind::granted;
  /// The request of this event; none if the event is about a group.
  RequestId request;
  /// The group of this event; none if the event is about a request.
  GroupId group;
  /// The lease: with granted, and with released and lost if the request had been granted.
  std::optional<Lease> lease;
  /// With a group's grant: the places of all bundles that the group now has, in order, including earlier ones.
  std::vector<BundleGrant> bundles;
  Errc code = Errc::none;
  std::string reason;

  /// Return an event about a request, a group, or a lease and its request.
  [[nodiscard]] static Event about(RequestId id, Kind kind, Errc code = Errc::none, std::string reason = {});
  [[nodiscard]] static Event about(GroupId id, Kind kind, Errc code = Errc::none, std::string reason = {});
  [[nodiscard]] static Event about(const Lease& lease, Kind kind, Errc code = Errc::none, std::string reason = {});
};

/// Returns "granted", "pending", ... Any thread.
[[nodiscard]] std::string_view to_string(Event::Kind kind) noexcept;

} // namespace gpuactors
