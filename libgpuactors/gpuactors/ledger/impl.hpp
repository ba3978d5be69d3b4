// The implementation of the ledger: one class, with its methods by subject in requests.cpp (submit, grant, release,
// time), reasons.cpp, serving.cpp (the queue), lending.cpp, groups.cpp, nodes.cpp, restore.cpp, reservations.cpp,
// owners.cpp (quotas), views.cpp, invariants.cpp.
#pragma once

#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/ledger/queue.hpp>

#include <functional>
#include <map>
#include <span>

namespace gpuactors {

class Ledger::Impl {
public:
  using Entry = ledger_detail::Entry;
  using Lens = ledger_detail::Lens;
  using Hold = ledger_detail::Hold;
  using Node = ledger_detail::Node;
  using Fit = ledger_detail::Fit;
  using Pool = ledger_detail::Pool;
  using Prospect = ledger_detail::Prospect;
  using QueueKey = ledger_detail::QueueKey;
  using Shape = ledger_detail::Shape;
  using ShapeKey = ledger_detail::ShapeKey;

  explicit Impl(LedgerOptions options) : options_(options), next_lease_(options.last_id), epoch_(options.last_id) {
    // nop
  }

  // -- the public calls, see ledger.hpp --------------------------------------------------------

  Result<Events> add_node(NodeSpec spec, TimePoint now);
  Result<Events> remove_node(std::string_view name, TimePoint now);
  Result<Events> drain_node(std::string_view name, TimePoint now);
  Result<Events> undrain_node(std::string_view name, TimePoint now);
  Result<void> suspend_node(std::string_view name);
  Result<Events> unsuspend_node(std::string_view name, TimePoint now);
  Result<Events> set_types(std::string_view name, std::optional<std::vector<std::string>> types, TimePoint now);
  Result<Events> fail_device(std::string_view name, int index, TimePoint now, Holders holders);
  TypeId type(std::string_view name);
  std::string_view type_name(TypeId type) const {
    return table_.types().name_of(type);
  }
  Events submit(RequestId id, ResourceRequest request, TimePoint now);
  Result<Events> release(LeaseId id, std::uint64_t epoch, TimePoint now);
  Result<Events> cancel(RequestId id, TimePoint now);
  Events submit_group(GroupId id, GroupRequest request, TimePoint now);
  Result<Events> release_group(GroupId id, TimePoint now);
  void pause() noexcept {
    paused_ = true;
  }
  Events resume(TimePoint now);
  Events expect_nodes(bool expected, TimePoint now);
  Result<void> restore(Lease lease);
  Result<void> restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now);
  Result<Events> set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now);
  Events advance(TimePoint now);
  std::optional<TimePoint> next_timeout() const;
  std::vector<NodeView> nodes() const;
  std::optional<NodeView> node(std::string_view name) const;
  std::vector<Lease> leases() const;
  const Lease* find_lease(LeaseId id) const;
  std::vector<Lease> remains() const;
  const Lease* find_remains(LeaseId id) const;
  const Lease* lease_of(RequestId id) const;
  std::vector<BundleGrant> bundles_of(GroupId id) const;
  std::vector<PendingView> pending() const;
  void for_each_pending(std::size_t most_reasons, const std::function<bool(const PendingView&)>& visit) const;
  std::vector<ReservationView> reservations() const;
  std::vector<NodeVerdict> verdicts(const ResourceRequest& request, RequestId waiting) const;
  std::vector<QuotaView> quotas() const;
  std::optional<std::string> over_quota(RequestId id) const;
  std::optional<std::string> over_quota(GroupId id) const;
  bool waits_in_vain(RequestId id) const;
  bool waits_in_vain(GroupId id) const;
  void check() const;

  const ledger_detail::Queue& queue() const {
    return queue_;
  }

private:
  // A lease, from its grant until its resources are back at their source: held -> (given back at once) or (ended, while
  // borrowers still hold parts of it) -> gone.
  struct Record {
    Lease lease;
    // The source of the resources: a node, a bundle, or the lent pool of another lease.
    Pool* source = nullptr;
    // The pool that the lease lends to its children; created when first needed.
    std::unique_ptr<Pool> lent;
    std::size_t lent_out = 0;
    // Whether the lease has ended.
    bool ended = false;
    // It was lost with a device, and its holder has not ended yet: the rest of it is kept when its borrowers are gone.
    bool holder_stays = false;
  };
  using Records = std::map<LeaseId, Record>;

  // What is kept of lost leases, with their ids: taken from their nodes, and counted in the quotas of their `owner`.
  using Remains = std::map<LeaseId, Lease>;

  struct Bundle {
    BundleGrant grant;
    Pool* source = nullptr;
    // The pool from which requests for this bundle draw.
    std::unique_ptr<Pool> pool;
  };

  // A placement group. It waits as long as bundles lack a place: waiting -> placed -> (a bundle lost) waiting -> ... A
  // shrinking group: waiting -> placed -> (its last bundle ended) gone.
  struct Group {
    GroupRequest request;
    QueueKey key;
    // Whether the group was placed once: it then survives the loss of a bundle.
    bool placed = false;
    // The bundles that have a place, ordered by number.
    std::vector<Bundle> bundles;
    // Numbers of the bundles that have ended for good.
    std::set<int> gone;
    // Leases drawn from the bundles, including ended ones whose parts are still lent.
    std::set<LeaseId> leases;
    // The number of requests that wait for this group.
    std::size_t waiting = 0;

    [[nodiscard]] const Bundle* find(int number) const {
      for (const auto& bundle : bundles)
        if (bundle.grant.bundle == number)
          return &bundle;
      return nullptr;
    }

    // Returns whether the bundle (for -1, any bundle) waits for a place.
    [[nodiscard]] bool lacks(int number) const {
      return number == -1 ? bundles.size() + gone.size() < request.bundles.size()
                          : find(number) == nullptr && gone.count(number) == 0;
    }
  };
  using Groups = std::map<GroupId, Group>;

  // A reserved place, for a request or for one bundle of a group.
  struct Place {
    Fit at;
    Share cpus;
    std::map<std::string, Share> resources;
  };

  // The cost of a reserved place: previous reservations in vain, then the share that other leases still have to give
  // back (cpus, for a request without devices).
  using Cost = std::pair<std::int64_t, std::int64_t>;

  struct Reservation {
    std::vector<Place> places;
    TimePoint until;
    // The group whose bundles contain the places; none if the places are on nodes.
    GroupId group;
  };

  // The progress of a priority's oldest blocked request towards a reservation: counting -> reserved -> (served) or
  // counting.
  struct Claim {
    QueueKey holder;
    TimePoint since;
    int passes = 0;
    std::optional<Reservation> reservation;
    // How often a device (pool id, index) was reserved in vain, so that the next attempt looks elsewhere.
    std::map<std::pair<std::uint64_t, int>, int> vain;
  };

  // The place found for a request, with its lender or bundle, if any.
  struct Found {
    Fit placement;
    LeaseId lender;
    int bundle = 0;
  };

  // -- requests.cpp ----------------------------------------------------------------------------

  void answer(RequestId id, ResourceRequest& request, Events& events);
  std::optional<Error> refuse(RequestId id, ResourceRequest& request) const;
  std::optional<Found> find_place(const ResourceRequest& request, QueueKey key);
  void grant(RequestId id, std::string name, const ResourceRequest& request, QueueKey key, Found&& found,
             Events& events);
  void wait(RequestId id, ResourceRequest& request, QueueKey key, Events& events);
  // Advances the time: ends expired waits, and ends and begins reservations.
  void pass_time(TimePoint now, Events& events);
  static Events finish(Events answer, Events earlier);

  // -- reasons.cpp -----------------------------------------------------------------------------

  Prospect prospect_of(const ShapeKey& key);
  Prospect prospect_with(const ShapeKey& key, std::int64_t charge);
  // Returns whether a shape that does not fit, seen through `lens`, would fit if no node were drained.
  bool fits_with_drained(const ShapeKey& key, Lens lens);
  std::string why_pending(const ShapeKey& key, const Prospect& prospect) const;
  // Like `why_pending`, ignoring reservations: empty if only they are in the way.
  std::string why_blocked(const ShapeKey& key, const Prospect& prospect) const;
  // Names the drained nodes that a shape waits for.
  std::string why_drained(const ShapeKey& key) const;
  std::string why_infeasible(const ShapeKey& key) const;
  // Returns the error for a shape that no node could ever serve.
  Error infeasible(const ShapeKey& key) const;
  // Returns whether none of the nodes that the shape may go to has its type.
  bool lacks_type(const ShapeKey& key) const;
  // Names the holder of the first reservation that binds `key`.
  std::string held_back_for(QueueKey key) const;

  // -- serving.cpp -----------------------------------------------------------------------------

  // Serves the queue until nothing more fits.
  void pump(Events& events);
  void serve_queue(Events& events);
  // Record that a pool (of a node, or of a bundle of `group`) has more free for waiting requests, or that it no longer
  // exists.
  void note_freed(Pool& pool, GroupId group);
  void forget_pool(const Pool& pool);
  bool grant_head(QueueKey key, Shape& shape, Events& events);
  // Takes an entry out of the queue, which frees its reservation for others. Call `pump` afterwards.
  Entry leave_queue(QueueKey key);
  void refuse_entry(QueueKey key, Event::Kind kind, Errc code, std::string reason, Events& events);
  // Recomputes whether the selected shapes can ever be satisfied, and refuses the entries that wait in vain.
  template <class Which>
  void recheck(Which which, Events& events);
  void recheck_group(GroupId id, Events& events);

  // -- lending.cpp -----------------------------------------------------------------------------

  const Record* live(LeaseId id) const;
  Pool& lent_pool(Record& record);
  std::optional<Found> borrow(const ResourceRequest& request, const Lens& lens);
  bool could_borrow(const ResourceRequest& request, const Lens& lens);
  template <class Leases, class Bundles>
  void for_each_held_by_ancestors(LeaseId parent, Leases visit_lease, Bundles visit_bundle) const;
  std::vector<Hold> ancestor_holds(LeaseId parent) const;
  Share ancestor_charge(LeaseId parent, const std::string& owner) const;
  // Ends a lease whose holder is gone and gives back its resources, once no part is lent. Call `pump` afterwards.
  void end_lease(Records::iterator it);
  void settle(Records::iterator it);
  // Turns the waiting requests of an ended task's children into ordinary ones.
  void orphan(LeaseId parent);
  void add_descendants(std::set<LeaseId>& ids) const;
  void lose(const std::set<LeaseId>& ids, const std::string& reason, Events& events);

  // -- groups.cpp ------------------------------------------------------------------------------

  // Returns the shape of the bundles that a group waits for.
  ShapeKey shape_of_group(GroupId id, const Group& group) const;
  // Return the amounts, and the nodes, of the bundles that a group keeps while it waits for the others.
  std::vector<Hold> kept_holds(GroupId keeper) const;
  std::set<const Node*> kept_nodes(GroupId keeper) const;
  void answer_group(GroupId id, GroupRequest& request, Events& events);
  void enqueue_group(GroupId id, Group& group, Prospect prospect);
  static Event describe_grant(GroupId id, const Group& group);
  bool try_grant_group(GroupId id, Group& group, Events& events);
  // Gives a bundle its place: takes the amounts from the node and makes the pool from which requests draw.
  void set_aside(Group& group, BundleGrant grant, Pool& source);
  // Loses bundles together with the leases in them; the group waits for new places for them, or shrinks. Recheck and
  // `pump` afterwards.
  void lose_bundles(GroupId id, const std::set<int>& numbers, const std::string& reason, Events& events);
  // Ends the bundles of shrinking groups that no lease uses any more, and reports the change of the groups.
  void shrink_groups(Events& events);
  void tell_of_shrinking(Groups::iterator it, Event::Kind end, const std::string& reason, Events& events);
  // Removes bundles from a group and gives back their resources.
  void take_out(Group& group, const std::set<int>& numbers);
  // Refuses the requests that wait for these bundles of a group, or for any bundle if `numbers` is null.
  void refuse_waiting_in(GroupId id, const std::set<int>* numbers, const std::string& reason, Events& events);
  // Gives back the resources of a bundle, which must be unused.
  void give_back(const Group& group, Bundle& bundle);
  // Removes a group that is no longer in the queue, and ends everything in it. Adds no event about the group itself.
  void end_group(Groups::iterator it, const std::string& reason, Events& events);

  // -- owners.cpp ------------------------------------------------------------------------------

  ShapeKey shape_key(const ResourceRequest& request) const;
  // Count what is granted in the quota of its owner, or take it out of the count. Call `pump` afterwards.
  void charge(const std::string& owner, const std::vector<DeviceGrant>& devices);
  void discharge(const std::string& owner, const std::vector<DeviceGrant>& devices);
  // Whether the lease counts itself: not what is lent or in a group.
  static bool counts(const Lease& lease) {
    return !lease.parent && !lease.group;
  }
  // Returns the least that a grant takes of its owner's quota, wherever in the cluster; 0 if no quota applies.
  std::int64_t charge_of(const ShapeKey& key) const;
  static std::int64_t charge_of(const std::vector<Fit>& places);
  // Returns what a quota could have for the shape at most: all of it but what the shape's ancestors keep while they
  // wait for it.
  std::int64_t most_room_for(const ShapeKey& key) const;
  // Returns whether a grant of `least` units has room in the owner's quota, and sets the lens to what one device may
  // give then.
  bool has_room(const std::string& owner, std::int64_t least, Lens& lens) const;
  // Why the quota of its owner keeps the shape waiting, or keeps it from ever being served; empty: it does not.
  std::string why_over_quota(const ShapeKey& key, std::int64_t charge) const;
  std::string why_beyond_quota(const ShapeKey& key) const;
  // What is left in the owner's quota, as the end of a reason for bundles by memory alone; empty: no matter.
  std::string within_quota(const ShapeKey& key) const;
  std::optional<std::string> over_quota(const Entry* entry) const;
  static bool waits_in_vain(const Entry* entry);
  // Finds new shapes for the waiting requests of owners that have become, or are no longer, bounded.
  void reshape();
  // Forgets the texts of why shapes wait, which have numbers of quotas.
  void drop_reasons();
  // Quotas have changed: has `pump` look at all waiting requests again.
  void look_at_all();

  // -- nodes.cpp -------------------------------------------------------------------------------

  // Who waits looks at all that is free on the node, also in bundles.
  void note_all_freed(Node& node);
  // Forgets the names of types that nobody needs, if there are many.
  void forget_types();
  // Has a node take no more leases and reservations. Call `pump` afterwards.
  Result<Node*> begin_drain(std::string_view name, TimePoint now, Events& events);
  // Keeps what the leases that these events lost have besides failed devices: it is back at the node, and still in use.
  // `lenders` has who lent each lease its part, as it was before.
  void keep_remains(std::span<const Event> events, const std::map<LeaseId, LeaseId>& lenders);
  // Takes what is left of a lost lease anew from its node.
  void keep_rest(Lease rest);
  // Gives that back, of one lease or of all on a node.
  void free_remains(Remains::iterator it);
  void free_remains_on(const Node& node);
  // Revokes the leases and bundles on a node, or on one of its devices.
  void lose_on(const Node& node, std::optional<int> index, const std::string& reason, Events& events);

  // -- restore.cpp -----------------------------------------------------------------------------

  Result<Pool*> source_of(const Lease& lease);

  // -- reservations.cpp ------------------------------------------------------------------------

  Lens binding(QueueKey key) const;
  template <class Visit>
  void for_each_oldest(Visit visit);
  Claim& claim_of(const Entry& entry);
  void sync_claims();
  // Counts a grant to `key` as a pass over each blocked request before it that could have used the granted resources.
  void count_pass(QueueKey key, const Fit& granted);
  bool could_have_used(const ShapeKey& key, const Fit& granted) const;
  // Ends the claim's reservation, so that others can use its places.
  void end_reservation(Claim& claim);
  bool expire_reservations();
  void make_due_reservations();
  void reserve(const Entry& entry);
  std::vector<Place> choose_target(const Entry& entry, const Claim& claim);
  std::optional<std::pair<Cost, Place>> best_place_in(Pool& pool, const ResourceRequest& request, const Claim& claim,
                                                      const Lens& lens) const;
  Cost cost_of(const Place& place, const Claim& claim) const;
  // Returns the lens for choosing a place to reserve: total amounts, less the reservations before the entry, the
  // bundles that its group keeps, and the leases of its ancestors.
  Lens target_lens(const Entry& entry) const;
  // Moves reservations to places that have become cheaper since resources were given back.
  void move_reservations();
  void drop_reservations_on(const Node& node);

  LedgerOptions options_;
  ledger_detail::NodeTable table_;
  ledger_detail::Queue queue_;
  Records records_;
  std::map<RequestId, LeaseId> holders_;
  Remains remains_;
  Groups groups_;
  std::map<int, Claim> claims_;
  // Pools that got something back since the last `pump`; only recorded while there are claims.
  std::vector<Pool*> freed_;
  // Pools that have more free for waiting requests than at the last `pump`.
  ledger_detail::Freed changed_;
  ledger_detail::Quotas quotas_;
  // Owners whose quotas have got room since then for requests that had none.
  ledger_detail::Grown grown_;
  // A grant may have used up the quota of an owner for whom a place is held back: `pump` must look again.
  bool quota_due_ = false;
  // For each lease, the number of waiting requests whose parent it is.
  std::map<LeaseId, std::size_t> waiting_children_;
  // A restored group waits: the next call must serve the queue.
  bool serve_due_ = false;
  // Bundles of shrinking groups in which a lease has ended since the last `pump`; and shrinking groups that have lost
  // bundles, with the reason.
  std::set<std::pair<GroupId, int>> left_;
  std::map<GroupId, std::string> shrunk_;
  // Nodes or ancestors have changed: `pump` must recheck which shapes can ever be satisfied.
  bool recheck_due_ = false;
  TimePoint now_ = TimePoint::min();
  std::uint64_t next_lease_ = 0;
  std::uint64_t epoch_ = 0;
  bool paused_ = false;
  bool expecting_ = false;
  std::uint64_t next_pool_ = 0;
  // With more names of types than this, those that nobody needs are forgotten.
  static constexpr std::size_t least_types = 1024;
  std::size_t most_types_ = least_types;
};

} // namespace gpuactors
