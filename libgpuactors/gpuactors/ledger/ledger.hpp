// The ledger: who holds which part of which device, who waits, and who is next.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/request.hpp>
#include <gpuactors/ledger/view.hpp>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace gpuactors {

/// The bounds of the queue. docs/reference/scheduling.md says what follows from them.
struct LedgerOptions {
  /// The oldest blocked request of a priority gets a reservation once it has been blocked this long ...
  Duration reservation_after = std::chrono::seconds{1};
  /// ... or once this many requests behind it were granted what it could have used.
  int reservation_passes = 16;
  /// How long one reservation holds its place.
  Duration reservation_for = std::chrono::seconds{30};
  /// More waiting requests than this are rejected with `queue_full`.
  std::size_t max_pending = std::size_t{1} << 20;
  /// Ids and epochs of leases are above this: a ledger that follows another one does not use its ids again.
  std::uint64_t last_id = 0;
};

/// Grants parts of devices and nodes, keeps the queue, and never grants anything twice.
///
/// Pure: no clock, no thread, no randomness; the same calls give the same answers, and every tie is broken by node
/// name, then device index. Whatever frees resources also grants what now fits, in the events of the same call. Time is
/// an argument of every call; one that lies before the latest time seen counts as that time.
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

  /// Forgets a node; what was held on it is lost. A group that had bundles on it waits, at its old age and however long
  /// it takes, for these to be placed anew, keeps the others, and answers with pending, then granted; under STRICT_PACK
  /// it loses all. One that shrinks answers with granted, for the bundles that are left, or lost.
  /// @returns `not_found`.
  Result<Events> remove_node(std::string_view name, TimePoint now);

  /// Places nothing new on a node; what is held there stays until it is released. @returns `not_found`.
  Result<Events> drain_node(std::string_view name, TimePoint now);

  /// Quarantines a device; leases that use it are lost, and bundles as with `remove_node`. @returns `not_found`.
  Result<Events> fail_device(std::string_view node, int index, TimePoint now);

  // -- requests --------------------------------------------------------------------------------

  /// Asks for resources; the first event is the answer: granted, pending, infeasible or rejected. `id` must not be in
  /// use.
  Events submit(RequestId id, ResourceRequest request, TimePoint now);

  /// Gives a lease back; a group that shrinks answers with granted, for the bundles that are left, or released.
  /// @returns `not_found`, `lease_expired` (it has ended) or `stale_epoch`.
  Result<Events> release(LeaseId id, std::uint64_t epoch, TimePoint now);

  /// Withdraws a request that waits. @returns `not_found`, or `invalid_argument` when it holds a lease.
  Result<Events> cancel(RequestId id, TimePoint now);

  // -- placement groups ------------------------------------------------------------------------

  /// Asks for a placement group; the first event is the answer. `id` must not be in use.
  Events submit_group(GroupId id, GroupRequest request, TimePoint now);

  /// Removes a group, held or waiting: leases inside are lost, and requests that wait for it are rejected.
  /// @returns `not_found`.
  Result<Events> release_group(GroupId id, TimePoint now);

  // -- restart ---------------------------------------------------------------------------------

  // For a ledger that is built anew from what the nodes say that they run: first the nodes, then groups, then leases,
  // lenders before borrowers, then `advance`. What is told here is taken as a fact: no rule of the queue applies, and a
  // node that drains will do. Ids and epochs that are given out later are above all that were restored.

  /// Puts a lease back where it was. `asked_by` is the lease of the task that asked for it, if there still is one.
  /// @returns `invalid_argument`, `already_exists`, `not_found` (no such node, device, group, bundle or lender) or
  /// `no_capacity` (something else holds it).
  Result<void> restore(Lease lease, LeaseId asked_by = {});

  /// Puts a placement group back. Bundles that are not named are placed anew, as if they had been lost just now; if
  /// none is named, as if it had been asked for just now.
  /// @returns as `restore`.
  Result<void> restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now);

  /// Until `resume`, nothing that waits is served: for several calls that make one change, such as a node that comes
  /// with what is held on it.
  void pause();

  /// Serves what fits after all that was called since `pause`.
  Events resume(TimePoint now);

  /// While nodes are expected, a request that no node could ever satisfy waits, as if it had said so itself; when they
  /// no longer are, those that still cannot be satisfied are infeasible.
  Events expect_nodes(bool expected, TimePoint now);

  // -- time ------------------------------------------------------------------------------------

  /// Ends waits and reservations whose time is over.
  Events advance(TimePoint now);

  /// When `advance` has to be called next, if nothing else happens.
  [[nodiscard]] std::optional<TimePoint> next_timeout() const;

  // -- views -----------------------------------------------------------------------------------

  /// All nodes by name.
  [[nodiscard]] std::vector<NodeView> nodes() const;

  [[nodiscard]] std::optional<NodeView> node(std::string_view name) const;

  /// All leases by id. A lease that was released while parts of it are lent on is no longer among them.
  [[nodiscard]] std::vector<Lease> leases() const;

  /// One lease, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* find_lease(LeaseId id) const;

  /// The lease that a request holds, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* lease_of(RequestId id) const;

  /// Where the bundles of a group are, as far as they have a place; empty when it does not exist.
  [[nodiscard]] std::vector<BundleGrant> bundles_of(GroupId id) const;

  [[nodiscard]] bool is_pending(RequestId id) const;

  [[nodiscard]] std::size_t pending_count() const;

  /// All that waits, in the order of the queue: priority, then age.
  [[nodiscard]] std::vector<PendingView> pending() const;

  [[nodiscard]] std::vector<ReservationView> reservations() const;

  /// What each node (for a request with a group: each bundle of the group) says to a request as of now, by name.
  /// `waiting` is its id if it waits; without one it is taken to be new. Looks at all nodes; what a `parent` could lend
  /// is not among the answers.
  [[nodiscard]] std::vector<NodeVerdict> verdicts(const ResourceRequest& request, RequestId waiting = {}) const;

  /// Recomputes every sum from the leases and aborts where the books disagree. Slow: for tests.
  void check() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
