// The ledger: records which part of which device each lease holds, and which requests wait in which order.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/request.hpp>
#include <gpuactors/ledger/view.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Limits of the queue. docs/reference/scheduling.md explains their effects.
struct LedgerOptions {
  /// The oldest blocked request of a priority gets a reservation once it has been blocked this long ...
  Duration reservation_after = std::chrono::seconds{1};
  /// ... or once this many requests behind it were granted what it could have used.
  int reservation_passes = 16;
  /// How long one reservation holds its place.
  Duration reservation_for = std::chrono::seconds{30};
  /// More waiting requests than this are rejected with `queue_full`.
  std::size_t max_pending = std::size_t{1} << 20;
  /// Ids and epochs of leases are above this, so a successor of another ledger does not reuse its ids.
  std::uint64_t last_id = 0;
};

/// Whether the holders of lost leases have ended: the rest of such a lease, without the lost device, is free at once,
/// or only when `Ledger::release` says that its holder has ended.
enum class Holders : std::uint8_t { gone, stay };

/// Grants parts of devices and nodes, keeps the queue, and never grants anything twice.
///
/// Pure: no clock, thread or randomness; the same calls give the same answers, and every tie is broken by node name,
/// then device index. A call that frees resources also grants, in its events, the requests that now fit. Time is an
/// argument of every call; a time before the latest one counts as the latest one.
///
/// One thread at a time. A broken invariant aborts the program with a message: it would mean a device granted twice.
class Ledger {
public:
  using Events = std::vector<Event>;

  explicit Ledger(LedgerOptions options = {});
  ~Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;

  // -- nodes -----------------------------------------------------------------------------------

  /// Registers a node. @returns `invalid_argument` or `already_exists`.
  Result<Events> add_node(NodeSpec spec, TimePoint now);

  /// Removes a node; its leases are lost. A group with bundles on it keeps its other bundles and its age, waits without
  /// a limit for new places for the lost ones, and answers with pending, then granted; under STRICT_PACK it loses all
  /// bundles. A shrinking group answers with granted, for the remaining bundles, or lost.
  /// @returns `not_found`.
  Result<Events> remove_node(std::string_view name, TimePoint now);

  /// Places nothing new on a node; its leases stay until they are released. A request that only drained nodes could
  /// serve waits until one of them is undrained or the last one is removed. @returns `not_found`.
  Result<Events> drain_node(std::string_view name, TimePoint now);

  /// Undoes `drain_node`: the node takes new leases again. @returns `not_found`.
  Result<Events> undrain_node(std::string_view name, TimePoint now);

  /// Grants nothing on a node for now, not even in bundles and leases there, because orders to the node would be lost.
  /// Refuses nothing because of that: requests that only this node has room for wait. @returns `not_found`.
  Result<void> suspend_node(std::string_view name);

  /// Undoes `suspend_node`. @returns `not_found`.
  Result<Events> unsuspend_node(std::string_view name, TimePoint now);

  /// Changes the types of tasks and actors that a node has; nothing means unknown: the node takes all. Leases there
  /// stay, whatever their types. Requests for a type that no node has any more are refused, as when the last node with
  /// it is removed.
  /// @returns `not_found`, or `invalid_argument` for more types or other names than `add_node` takes.
  Result<Events> set_types(std::string_view name, std::optional<std::vector<std::string>> types, TimePoint now);

  /// Quarantines a device; its leases are lost, and its bundles as in `remove_node`. If the holders stay, the rest of
  /// each lease is kept until its `release`. @returns `not_found`.
  Result<Events> fail_device(std::string_view node, int index, TimePoint now, Holders holders = Holders::gone);

  // -- types -----------------------------------------------------------------------------------

  /// Returns the number of a type of tasks or actors, for `ResourceRequest::type`; none for an empty name. Call it
  /// right before the call that takes the request: a number that neither a node nor a waiting request needs may be
  /// forgotten when another one is asked for, or a node is added.
  [[nodiscard]] TypeId type(std::string_view name);

  /// Returns the name of a type, or an empty one. Valid until the next call that changes the ledger.
  [[nodiscard]] std::string_view type_name(TypeId type) const;

  // -- requests --------------------------------------------------------------------------------

  /// Requests resources; the first event is the answer: granted, pending, infeasible or rejected. `id` must be unused.
  Events submit(RequestId id, ResourceRequest request, TimePoint now);

  /// Releases a lease, or the rest of a lost one (`remains`); a shrinking group answers with granted, for the remaining
  /// bundles, or released.
  /// @returns `not_found`, `lease_expired` (it has ended) or `stale_epoch`.
  Result<Events> release(LeaseId id, std::uint64_t epoch, TimePoint now);

  /// Withdraws a waiting request. @returns `not_found`, or `invalid_argument` if it holds a lease.
  Result<Events> cancel(RequestId id, TimePoint now);

  // -- placement groups ------------------------------------------------------------------------

  /// Requests a placement group; the first event is the answer. `id` must be unused.
  Events submit_group(GroupId id, GroupRequest request, TimePoint now);

  /// Removes a group, held or waiting: leases inside are lost, and requests that wait for it are rejected.
  /// @returns `not_found`.
  Result<Events> release_group(GroupId id, TimePoint now);

  // -- quotas ----------------------------------------------------------------------------------

  /// Bounds the share of devices that all leases and groups of an owner may hold together; for `default_owner`, that of
  /// each owner without a quota of its own. Without a `limit`, removes the quota. A part that is lent inside a lease,
  /// or drawn from a group, counts once, as the lease or the group. A lower quota ends nothing, and grants nothing
  /// more.
  ///
  /// A request without room in the quota waits, and holds up nobody else; a request that could never have room is
  /// infeasible.
  /// @returns `invalid_argument`, or `not_found` if there is no quota to remove.
  Result<Events> set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now);

  // -- restart ---------------------------------------------------------------------------------

  // Rebuild a ledger from the nodes' reports: first add the nodes, then groups, then leases, lenders before borrowers,
  // then call `advance`. These calls accept facts: no rule of the queue applies, and draining nodes are allowed. Later
  // ids and epochs are above all restored ones.

  /// Restores a lease in its place.
  /// @returns `invalid_argument`, `already_exists`, `not_found` (no such node, device, group, bundle or lender) or
  ///          `no_capacity` (something else holds it).
  Result<void> restore(Lease lease);

  /// Restores a placement group. Bundles that are not named count as just lost and are placed again; if none is named,
  /// the group counts as just requested.
  /// @returns the errors of `restore`.
  Result<void> restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now);

  /// Stops serving waiting requests until `resume`, for several calls that make one change, such as a node that arrives
  /// with its leases.
  void pause();

  /// Serves the requests that fit after all calls since `pause`.
  Events resume(TimePoint now);

  /// While nodes are expected, a request that no node could ever satisfy waits, as with `wait_for_nodes`, and owners
  /// with a quota are granted nothing, because nodes may report leases of theirs. When nodes are no longer expected,
  /// requests that still cannot be satisfied become infeasible.
  Events expect_nodes(bool expected, TimePoint now);

  // -- time ------------------------------------------------------------------------------------

  /// Ends waits and reservations whose time has passed.
  Events advance(TimePoint now);

  /// Returns when `advance` must be called next, if nothing else happens.
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;

  // -- views -----------------------------------------------------------------------------------

  /// Returns all nodes, ordered by name.
  [[nodiscard]] std::vector<NodeView> nodes() const;

  [[nodiscard]] std::optional<NodeView> node(std::string_view name) const;

  /// Returns all leases, ordered by id, without released leases that still lend parts.
  [[nodiscard]] std::vector<Lease> leases() const;

  /// Returns a lease, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* find_lease(LeaseId id) const;

  /// Returns what remains of leases that were lost with a device, until their holders have ended, ordered by id; of
  /// some, nothing remains. Remains belong to no group and no other lease. What a lease had lent is kept with its
  /// remains.
  [[nodiscard]] std::vector<Lease> remains() const;

  /// Returns what remains of a lost lease, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* find_remains(LeaseId id) const;

  /// Returns the lease of a request, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* lease_of(RequestId id) const;

  /// Returns the places of a group's bundles, as far as they have one; empty if the group does not exist.
  [[nodiscard]] std::vector<BundleGrant> bundles_of(GroupId id) const;

  [[nodiscard]] bool is_pending(RequestId id) const;

  [[nodiscard]] std::size_t pending_count() const;

  /// Returns whether a pending request could be served by the nodes that take new leases, if all on them were free, and
  /// has room in its owner's quota now.
  [[nodiscard]] bool could_be_served(RequestId id) const;

  /// Returns all waiting requests in the order of the queue: priority, then age.
  [[nodiscard]] std::vector<PendingView> pending() const;

  /// Visits the waiting requests in the order of `pending` until `visit` returns false. Finding a reason takes as long
  /// as finding a place: at most `most_reasons` are found, each for all waiting requests that ask for the same; further
  /// reasons are empty.
  void for_each_pending(std::size_t most_reasons, const std::function<bool(const PendingView&)>& visit) const;

  [[nodiscard]] std::vector<ReservationView> reservations() const;

  /// Returns what each owner holds or may hold, ordered by name: all that have a quota or hold anything.
  [[nodiscard]] std::vector<QuotaView> quotas() const;

  /// Returns the owner whose quota has no room for a waiting request or group now, but would have if the owner released
  /// something; nothing if it waits for other reasons, or if no release would help.
  [[nodiscard]] std::optional<std::string> over_quota(RequestId id) const;
  [[nodiscard]] std::optional<std::string> over_quota(GroupId id) const;

  /// Returns whether a waiting request or group of an owner with a quota could not be served now, whatever was
  /// released: it waits for nodes, or for a higher quota.
  [[nodiscard]] bool waits_in_vain(RequestId id) const;
  [[nodiscard]] bool waits_in_vain(GroupId id) const;

  /// Returns the current answer of each node (for a request with a group: of each bundle) to a request, ordered by
  /// name. `waiting` is the id of a waiting request; without it, the request counts as new. Looks at all nodes; does
  /// not consider loans from a `parent`, nor quotas.
  [[nodiscard]] std::vector<NodeVerdict> verdicts(const ResourceRequest& request, RequestId waiting = {}) const;

  /// Recomputes every sum from the leases and aborts if the accounts disagree. Slow: for tests.
  void check() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
