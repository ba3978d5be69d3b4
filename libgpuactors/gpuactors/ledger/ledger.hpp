// The ledger: records which part of which device each lease holds, and which requests wait in which order.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/claim.hpp>
#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/node_table.hpp>
#include <gpuactors/ledger/queue.hpp>
#include <gpuactors/ledger/quotas.hpp>
#include <gpuactors/ledger/records.hpp>
#include <gpuactors/ledger/request.hpp>
#include <gpuactors/ledger/view.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

  explicit Ledger(LedgerOptions options = {})
    : options_(options), last_lease_(options.last_id), last_epoch_(options.last_id) {
    // nop
  }

  ~Ledger() = default;
  Ledger(Ledger&&) noexcept = default;
  Ledger& operator=(Ledger&&) noexcept = default;

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

  /// Restores a placement group. Bundles that are not named, or whose place is not there or not free any more, count as
  /// just lost and are placed again; if none has its place, the group counts as just requested.
  /// @returns `invalid_argument`, `already_exists`, or `no_capacity` for a shrinking group of which nothing is left.
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

  /// Returns what remains of leases that were lost with a device, until their holders have ended: first those that
  /// lend nothing, then the others, each ordered by id. Of some, nothing remains. Remains belong to no group. What a
  /// lost borrower keeps is its own, and taken off its lender's; as long as other borrowers keep the lender's lease
  /// whole, it is counted there, and has that lease as its `parent`.
  [[nodiscard]] std::vector<Lease> remains() const;

  /// Returns what remains of a lost lease, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* find_remains(LeaseId id) const;

  /// Visits what is held on a node: its leases, then what remains of lost ones. `visit` must not change the ledger.
  void for_each_held(std::string_view node, const std::function<void(const Lease&)>& visit) const;

  /// Returns the lease of a request, or null. Valid until the next call that changes the ledger.
  [[nodiscard]] const Lease* lease_of(RequestId id) const;

  /// Returns the places of a group's bundles, as far as they have one; empty if the group does not exist.
  [[nodiscard]] std::vector<BundleGrant> bundles_of(GroupId id) const;

  /// Returns the leases in a group, and those that borrow from them: also leases that have ended and still lend parts.
  /// As long as there is one, removing the group would take away what somebody uses.
  [[nodiscard]] std::set<LeaseId> held_in(GroupId id) const;

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

  /// Likewise to a bundle of a waiting group.
  [[nodiscard]] std::vector<NodeVerdict> verdicts(const ResourceRequest& bundle, GroupId waiting) const;

  /// Recomputes every sum from the leases and aborts if the accounts disagree. Slow: for tests.
  void check() const;

private:
  using Bundle = ledger_detail::Bundle;
  using Claim = ledger_detail::Claim;
  using Entry = ledger_detail::Entry;
  using Fit = ledger_detail::Fit;
  using GroupRecord = ledger_detail::GroupRecord;
  using Hold = ledger_detail::Hold;
  using LeaseRecord = ledger_detail::LeaseRecord;
  using Lens = ledger_detail::Lens;
  using Node = ledger_detail::Node;
  using Pool = ledger_detail::Pool;
  using Prospect = ledger_detail::Prospect;
  using QueueKey = ledger_detail::QueueKey;
  using ReservedPlace = ledger_detail::ReservedPlace;
  using Shape = ledger_detail::Shape;
  using ShapeKey = ledger_detail::ShapeKey;

  using LeaseRecords = std::map<LeaseId, LeaseRecord>;
  using GroupRecords = std::map<GroupId, GroupRecord>;
  // What is kept of lost leases, with their ids: taken from their nodes, and counted in the quotas of their `owner`.
  // With a `parent`, it is neither: it is a part of that lease, which has a record.
  using Remains = std::map<LeaseId, Lease>;

  // The place found for a request, with its lender or bundle, if any.
  struct Found {
    Fit fit;
    LeaseId lender;
    int bundle = 0;
  };

  // Each source has one subject. It defines the calls above that are about it, and what follows here under its name.

  // -- requests.cpp: submission, grant, release; the passing of time ---------------------------

  std::optional<Error> why_invalid(RequestId id, const ResourceRequest& request) const;
  void answer(RequestId id, ResourceRequest& request, Events& events);
  std::optional<Found> find_place(const ResourceRequest& request, QueueKey key);
  void grant(RequestId id, std::string name, const ResourceRequest& request, QueueKey key, Found&& found,
             Events& events);
  // Takes what a new lease holds from its source.
  const Lease& record_lease(Lease&& lease, Pool& source);
  void enqueue_or_refuse(RequestId id, ResourceRequest& request, QueueKey key, Events& events);
  // Returns the answer, yet without an id, to a request or group of this shape that may not wait.
  std::optional<Event> refuse_to_queue(const ShapeKey& key, const Prospect& prospect, QueueKey at, bool waits_for_nodes,
                                       bool may_queue) const;
  // Like `why_pending`, found once for all entries of a shape, but for reservations.
  std::string shared_reason(Shape& shape, QueueKey at) const;
  // Advances the time: ends expired waits, and ends and begins reservations.
  void pass_time(TimePoint now, Events& events);
  // Puts the answer to a call before the events of the time that has passed.
  static Events answer_first(Events answer, Events earlier);

  // -- serving.cpp: who waits is served, or refused if nothing can serve it any more -----------

  // Serves the queue until nothing more fits.
  void pump(Events& events);
  void serve_queue(Events& events);
  bool grant_head(QueueKey key, Shape& shape, Events& events);
  // Record that a pool (of a node, or of a bundle of `group`) has more free for waiting requests, that it has because
  // something was given back, or that it no longer exists.
  void note_freed(Pool& pool, GroupId group);
  void note_given_back(Pool& pool, GroupId group);
  void forget_pool(const Pool& pool);
  // For waiting requests, more room in quotas is like new nodes, and less like the loss of some: has `pump` look at all
  // of them.
  void look_at_all();
  // Takes an entry out of the queue, which frees its reservation for others. Call `pump` afterwards.
  Entry leave_queue(QueueKey key);
  void refuse_entry(QueueKey key, Event::Kind kind, Errc code, std::string reason, Events& events);
  // Recomputes whether the shapes that draw from this group (if none: all shapes) can ever be satisfied, and refuses
  // the entries that wait in vain.
  void recheck(GroupId group, Events& events);

  // -- reasons.cpp: whether a shape can be served at all, and why it waits ---------------------

  Prospect prospect_of(const ShapeKey& key);
  Prospect prospect_with(const ShapeKey& key, std::int64_t charge);
  // Returns whether a shape that does not fit, seen through `lens`, would fit if no node were drained.
  bool fits_with_drained(const ShapeKey& key, Lens lens);
  // Returns why a shape waits that is in the queue `at` a place.
  std::string why_pending(const ShapeKey& key, const Prospect& prospect, QueueKey at) const;
  // Like `why_pending`, ignoring reservations: empty if only they are in the way.
  std::string why_blocked(const ShapeKey& key, const Prospect& prospect) const;
  // Names the drained nodes that a shape waits for.
  std::string why_drained(const ShapeKey& key) const;
  std::string why_infeasible(const ShapeKey& key) const;
  // Returns the error for a shape that no node could ever serve.
  Error infeasible(const ShapeKey& key) const;
  // Returns whether none of the nodes that the shape may go to has its type.
  bool lacks_type(const ShapeKey& key) const;
  // Names the holder of the first reservation that binds `at` and leaves too little of a pool where it is: `fits` says
  // whether what is asked for would fit there, seen through a lens.
  std::string held_back_for(QueueKey at, const std::function<bool(const Pool&, const Lens&)>& fits) const;
  std::string held_back_for(const ShapeKey& key, QueueKey at) const;
  std::vector<NodeVerdict> verdicts_at(const ResourceRequest& request, QueueKey key) const;

  // -- lending.cpp: leases that lend to the children of their holders, and their end -----------

  // Returns the record of a lease that has not ended, or null.
  const LeaseRecord* live(LeaseId id) const;
  Pool& lent_pool(LeaseRecord& record);
  // Finds room in the parent's lease or in that of one of its ancestors, which wait for it. With a lens on total
  // amounts: room that there would be if other borrowers returned their parts.
  std::optional<Found> find_loan(const ResourceRequest& request, const Lens& lens);
  template <class Leases, class Bundles>
  void for_each_held_by_ancestors(LeaseId parent, Leases visit_lease, Bundles visit_bundle) const;
  // Return what stays taken as long as `parent` and its ancestors hold their leases, and how much of it counts in the
  // owner's quota.
  std::vector<Hold> ancestor_holds(LeaseId parent) const;
  Share ancestor_charge(LeaseId parent, const std::string& owner) const;
  // Ends a lease whose holder is gone. Gives back its resources, and those of ended lenders, once no part is lent.
  // Call `pump` afterwards.
  void end_lease(LeaseRecords::iterator it);
  // Gives back the resources of an ended lease without borrowers. Returns its lender, which may be next, or none.
  LeaseId give_back(LeaseRecords::iterator it);
  // Returns whether the end of `lease` can change what a child of `parent` may ever get.
  bool counts_on(LeaseId parent, LeaseId lease) const;
  // Turns the waiting requests of an ended task's children into ordinary ones.
  void orphan(LeaseId parent);
  void add_descendants(std::set<LeaseId>& ids) const;
  void lose(const std::set<LeaseId>& ids, const std::string& reason, Events& events);

  // -- groups.cpp: placement groups ------------------------------------------------------------

  // Returns the shape of the bundles that a group waits for.
  ShapeKey shape_key_of(GroupId id, const GroupRecord& group) const;
  // Return the amounts, and the nodes, of the bundles that a group keeps while it waits for the others.
  std::vector<Hold> kept_holds(GroupId keeper) const;
  std::set<const Node*> kept_nodes(GroupId keeper) const;
  void answer_group(GroupId id, GroupRequest& request, Events& events);
  void enqueue_group(GroupId id, GroupRecord& group, Prospect prospect);
  bool try_grant_group(GroupId id, GroupRecord& group, Events& events);
  // Gives a bundle its place: takes the amounts from the node and makes the pool from which requests draw.
  void set_aside(GroupRecord& group, BundleGrant grant, Pool& source);
  // Gives back the resources of a bundle, which must be unused.
  void give_back(const GroupRecord& group, Bundle& bundle);
  // Returns the leases in these bundles.
  std::set<LeaseId> leases_in(const GroupRecord& group, const std::set<int>& numbers) const;
  // Removes bundles from a group and gives back their resources.
  void take_out(GroupRecord& group, const std::set<int>& numbers);
  // Refuses the requests that wait for these bundles of a group, or for any bundle if `numbers` is null.
  void refuse_waiting_in(GroupId id, const std::set<int>* numbers, const std::string& reason, Events& events);
  // Removes a group that is no longer in the queue, and ends everything in it. Adds no event about the group itself.
  void end_group(GroupRecords::iterator it, const std::string& reason, Events& events);
  // Loses bundles together with the leases in them; the group waits for new places for them, or shrinks. Recheck and
  // `pump` afterwards.
  void lose_bundles(GroupId id, const std::set<int>& numbers, const std::string& reason, Events& events);
  // Ends the bundles of shrinking groups that no lease uses any more, and reports the change of the groups.
  void shrink_groups(Events& events);
  void tell_of_shrinking(GroupRecords::iterator it, Event::Kind end, const std::string& reason, Events& events);

  // -- owners.cpp: quotas ----------------------------------------------------------------------

  ShapeKey shape_key_of(const ResourceRequest& request) const;
  // Count what is granted in the quota of its owner, or take it out of the count. Call `pump` afterwards.
  void charge(const std::string& owner, const std::vector<DeviceGrant>& devices);
  void discharge(const std::string& owner, const std::vector<DeviceGrant>& devices);
  // Returns the least that a grant takes of its owner's quota, wherever in the cluster; 0 if no quota applies.
  std::int64_t charge_of(const ShapeKey& key) const;
  // Returns what a quota could have for the shape at most: all of it but what the shape's ancestors keep while they
  // wait for it.
  std::int64_t most_room_for(const ShapeKey& key) const;
  // Why the quota of its owner keeps the shape waiting, or keeps it from ever being served; empty: it does not.
  std::string why_over_quota(const ShapeKey& key, std::int64_t charge) const;
  std::string why_beyond_quota(const ShapeKey& key) const;
  // What is left in the owner's quota, as the end of a reason for bundles by memory alone; empty: no matter.
  std::string within_quota(const ShapeKey& key) const;
  // Returns the waiting entry of a group, or null.
  const Entry* entry_of(GroupId id) const;
  // Finds new shapes for the waiting requests of owners that have become, or are no longer, bounded.
  void reshape();
  // Forgets the texts of why shapes wait, which have numbers of quotas.
  void drop_reasons();

  // -- nodes.cpp: nodes and devices come and go ------------------------------------------------

  // Forgets the names of types that nobody needs, if there are many.
  void forget_types();
  // Who waits looks at all that is free on the node, also in bundles.
  void note_all_freed(Node& node);
  // Has a node take no more leases and reservations. Call `pump` afterwards.
  Result<Node*> begin_drain(std::string_view name, TimePoint now, Events& events);
  // Revokes the leases and bundles on a node, or on one of its devices.
  void lose_on(const Node& node, std::optional<int> index, const std::string& reason, Events& events);
  // Keeps what the leases that these events lost have besides failed devices: it is back at the node, and still in use.
  // `lenders` has who lent each lease its part, as it was before.
  void keep_remains(std::span<const Event> events, const std::map<LeaseId, LeaseId>& lenders);
  // Keeps what is left of a lost lease: as a part of `lender`'s, if anything of that is still taken, or else taken anew
  // from its node.
  void keep_rest(Lease rest, LeaseId lender);
  // The lease of a lender has gone: keeps what lost borrowers keep of it, of what is kept of it itself if its holder
  // stays.
  void keep_rests_within(const Lease& lender, bool lender_stays);
  // Gives that back, of one lease or of all on a node: to the lender whose remains it is of, if there is one.
  void free_remains(Remains::iterator it);
  void free_remains_on(const Node& node);

  // -- restore.cpp: what nodes report is put back in its place ---------------------------------

  // Returns the source of the lease's resources: the lent pool of another lease, a bundle, or its node.
  Result<Pool*> source_of(const Lease& lease);

  // -- reservations.cpp: places held back for who has waited long ------------------------------

  // Returns a lens on free amounts, without what is reserved for requests before `key` in the queue.
  Lens binding(QueueKey key) const;
  template <class Visit>
  void for_each_oldest(Visit visit);
  Claim& claim_of(const Entry& entry);
  // Drops the claims of entries that are no longer the oldest.
  void sync_claims();
  // Counts a grant to `key` as a pass over each blocked request before it that could have used the granted resources.
  void count_pass(QueueKey key, const Fit& granted);
  bool could_have_used(const ShapeKey& key, const Fit& granted) const;
  void make_due_reservations();
  void reserve(const Entry& entry);
  std::vector<ReservedPlace> choose_target(const Entry& entry, const Claim& claim);
  // For a group: without what was reserved in vain, as far as it fits without.
  std::vector<ReservedPlace> choose_group_target(const Entry& entry, const Claim& claim);
  // Returns the lens for choosing a place to reserve: total amounts, less the reservations before the entry, the
  // bundles that its group keeps, and the leases of its ancestors.
  Lens target_lens(const Entry& entry) const;
  // Moves reservations to places that have become cheaper since resources were given back.
  void move_reservations();
  bool may_draw_from(const Pool& pool, const ResourceRequest& request) const;
  bool expire_reservations();
  // Drop the reservations with a place on a node, also in bundles there, or in one pool.
  template <class Matches>
  void drop_reservations_if(Matches matches);
  void drop_reservations_on(const Node& node);
  void drop_reservations_in(const Pool& pool);
  // Ends the claim's reservation, so that others can use its places.
  void end_reservation(Claim& claim);

  // -- who holds what, who waits ---------------------------------------------------------------

  LedgerOptions options_;
  TimePoint now_ = TimePoint::min();
  ledger_detail::NodeTable table_;
  LeaseRecords records_;
  std::map<RequestId, LeaseId> holders_;
  Remains remains_;
  // By borrower: the lender whose remains its own were taken off, and go back to.
  std::map<LeaseId, LeaseId> taken_from_;
  GroupRecords groups_;
  ledger_detail::Quotas quotas_;
  ledger_detail::Queue queue_;
  // For each lease, the number of waiting requests whose parent it is.
  std::map<LeaseId, std::size_t> waiting_children_;
  // By priority.
  std::map<int, Claim> claims_;

  std::uint64_t last_lease_ = 0;
  std::uint64_t last_epoch_ = 0;
  std::uint64_t last_pool_ = 0;
  // With more names of types than this, those that nobody needs are forgotten.
  static constexpr std::size_t least_types = 1024;
  std::size_t most_types_ = least_types;
  bool paused_ = false;
  bool expecting_ = false;

  // -- what the next `pump` has to look at -----------------------------------------------------

  // Pools that have more free for waiting requests than at the last one.
  ledger_detail::Freed freed_;
  // Those of them that got something back; only recorded while there are claims.
  std::vector<Pool*> given_back_;
  // Owners whose quotas have got room since then for requests that had none.
  ledger_detail::Grown grown_;
  // Bundles of shrinking groups in which a lease has ended; and shrinking groups that have lost bundles, with the
  // reason.
  std::set<std::pair<GroupId, int>> left_bundles_;
  std::map<GroupId, std::string> shrunk_;
  // Nodes or ancestors have changed: it must recheck which shapes can ever be satisfied.
  bool recheck_due_ = false;
  // A grant may have used up the quota of an owner for whom a place is held back: it must look again.
  bool quota_due_ = false;
  // A restored group waits: the next call must serve the queue.
  bool serve_due_ = false;
};

} // namespace gpuactors
