// The ledger behind its public face. One class, its methods by subject in requests.cpp (submit, grant, release, time),
// reasons.cpp, serving.cpp (the queue), lending.cpp, groups.cpp, nodes.cpp, restore.cpp, reservations.cpp, views.cpp,
// invariants.cpp.
#pragma once

#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/ledger/queue.hpp>

#include <map>

namespace gpuactors {

class Ledger::Impl {
public:
  using Entry = ledger_detail::Entry;
  using Lens = ledger_detail::Lens;
  using Hold = ledger_detail::Hold;
  using Node = ledger_detail::Node;
  using Placement = ledger_detail::Placement;
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
  Result<Events> fail_device(std::string_view name, int index, TimePoint now);
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
  Result<void> restore(Lease lease, LeaseId asked_by);
  Result<void> restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now);
  Events advance(TimePoint now);
  std::optional<TimePoint> next_timeout() const;
  std::vector<NodeView> nodes() const;
  std::optional<NodeView> node(std::string_view name) const;
  std::vector<Lease> leases() const;
  const Lease* find_lease(LeaseId id) const;
  const Lease* lease_of(RequestId id) const;
  std::vector<BundleGrant> bundles_of(GroupId id) const;
  std::vector<PendingView> pending() const;
  std::vector<ReservationView> reservations() const;
  std::vector<NodeVerdict> verdicts(const ResourceRequest& request, RequestId waiting) const;
  void check() const;

  const ledger_detail::Queue& queue() const {
    return queue_;
  }

private:
  // A lease, from its grant until its resources are back where they came from:
  // held -> (given back at once) or (ended, while others hold what it lent) -> gone.
  struct Record {
    Lease lease;
    // The lease of the task that asked for this one; it may wait for it.
    LeaseId asked_by;
    // Where the resources came from: a node, a bundle, or what another lease lends.
    Pool* source = nullptr;
    // What it lends to its children, once it has any.
    std::unique_ptr<Pool> lent;
    std::size_t lent_out = 0;
    // Its holder is gone.
    bool ended = false;
  };
  // Hashed, because every grant and release passes here; walked only in the order of ids.
  using Records = std::unordered_map<LeaseId, Record>;

  struct Bundle {
    BundleGrant grant;
    Pool* source = nullptr;
    // What requests with this bundle draw from.
    std::unique_ptr<Pool> pool;
  };

  // A placement group; it waits as long as bundles are missing: waiting -> placed -> (a bundle lost) waiting -> ...
  // One that shrinks: waiting -> placed -> (its last bundle has gone) gone.
  struct Group {
    GroupRequest request;
    QueueKey key;
    // It was placed once: it does not end over a bundle that it loses.
    bool placed = false;
    // Those that have a place, by number.
    std::vector<Bundle> bundles;
    // Those that have gone for good.
    std::set<int> gone;
    // Drawn from its bundles, those included that have ended but are lent on.
    std::set<LeaseId> leases;
    // Requests that wait for it.
    std::size_t waiting = 0;

    [[nodiscard]] const Bundle* find(int number) const {
      for (const auto& bundle : bundles)
        if (bundle.grant.bundle == number)
          return &bundle;
      return nullptr;
    }

    // Whether the bundle, or for -1 any, waits for a place.
    [[nodiscard]] bool lacks(int number) const {
      return number == -1 ? bundles.size() + gone.size() < request.bundles.size()
                          : find(number) == nullptr && gone.count(number) == 0;
    }
  };
  using Groups = std::map<GroupId, Group>;

  // A place that is held back, as a request or as one bundle of a group needs it.
  struct Place {
    Placement at;
    Share cpus;
    std::map<std::string, Share> resources;
  };

  // What speaks against a place: attempts in vain, then share that others have yet to give back (cpus, for a request
  // without devices).
  using Cost = std::pair<std::int64_t, std::int64_t>;

  struct Reservation {
    std::vector<Place> places;
    TimePoint until;
    // Whose bundles they are in; none for nodes.
    GroupId group;
  };

  // The oldest blocked request of a priority on its way to a reservation: counting -> reserved -> (served) or counting.
  struct Claim {
    QueueKey holder;
    TimePoint since;
    int passes = 0;
    std::optional<Reservation> reservation;
    // How often a device (pool id, index) was reserved in vain, so that the next attempt looks elsewhere.
    std::map<std::pair<std::uint64_t, int>, int> vain;
  };

  // Where a request goes, and who lends or sets aside what it takes.
  struct Found {
    Placement placement;
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
  // Moves time on: waits that are over, reservations that end or begin.
  void pass_time(TimePoint now, Events& events);
  static Events finish(Events answer, Events earlier);

  // -- reasons.cpp -----------------------------------------------------------------------------

  Prospect prospect_of(const ShapeKey& key);
  std::string why_pending(const ShapeKey& key, bool feasible) const;
  // The same without reservations: empty when only they are in the way.
  std::string why_blocked(const ShapeKey& key, bool feasible) const;
  std::string why_infeasible(const ShapeKey& key) const;
  // For whom what is free is held back, by the first reservation that binds `key`.
  std::string held_back_for(QueueKey key) const;

  // -- serving.cpp -----------------------------------------------------------------------------

  void pump(Events& events);
  // A node's pool, or the bundle of a group, has more free for those that wait; or it is gone.
  void note_freed(Pool& pool, GroupId group);
  void forget_pool(const Pool& pool);
  bool grant_head(QueueKey key, Shape& shape, Events& events);
  // Takes an entry out of the queue. What was held back for it is there for others then: pump.
  Entry leave_queue(QueueKey key);
  void refuse_entry(QueueKey key, Event::Kind kind, Errc code, std::string reason, Events& events);
  // Looks again at whether the shapes can ever be satisfied, and answers those that wait in vain.
  template <class Which>
  void recheck(Which which, Events& events);
  void recheck_group(GroupId id, Events& events);

  // -- lending.cpp -----------------------------------------------------------------------------

  const Record* live(LeaseId id) const;
  std::vector<const Record*> records_by_id() const;
  Pool& lent_pool(Record& record);
  std::optional<Found> borrow(const ResourceRequest& request, const Lens& lens);
  bool could_borrow(const ResourceRequest& request, const Lens& lens);
  std::vector<Hold> ancestor_holds(LeaseId parent) const;
  // The holder is gone: gives back what is not lent on. Then pump.
  void end_lease(Records::iterator it);
  void settle(Records::iterator it);
  // Requests of the children of a task that has ended become ordinary ones.
  void orphan(LeaseId parent);
  void add_descendants(std::set<LeaseId>& ids) const;
  void lose(const std::set<LeaseId>& ids, const std::string& reason, Events& events);

  // -- groups.cpp ------------------------------------------------------------------------------

  // The shape of what a group waits for.
  static ShapeKey shape_of_group(GroupId id, const Group& group);
  // What the group keeps while it waits for the rest, and the nodes that this is on.
  std::vector<Hold> kept_holds(GroupId keeper) const;
  std::set<const Node*> kept_nodes(GroupId keeper) const;
  void answer_group(GroupId id, GroupRequest& request, Events& events);
  void enqueue_group(GroupId id, Group& group, Prospect prospect);
  static Event describe_grant(GroupId id, const Group& group);
  bool try_grant_group(GroupId id, Group& group, Events& events);
  // Gives a bundle its place: takes it from the node and makes it there to be drawn from.
  void set_aside(Group& group, BundleGrant grant, Pool& source);
  // Loses bundles with what is in them; the group waits for them to be placed anew, or shrinks. Then recheck and pump.
  void lose_bundles(GroupId id, const std::set<int>& numbers, const std::string& reason, Events& events);
  // Lets bundles of groups that shrink go once nothing is in them, and says what has become of the groups.
  void shrink_groups(Events& events);
  void tell_of_shrinking(Groups::iterator it, Event::Kind end, const std::string& reason, Events& events);
  // Takes bundles out of a group and gives back what was set aside for them.
  void take_out(Group& group, const std::set<int>& numbers);
  // Refuses the requests that wait for these bundles of a group, for all of them if null.
  void refuse_waiting_in(GroupId id, const std::set<int>* numbers, const std::string& reason, Events& events);
  // What was set aside for a bundle is free again. Nothing in it is held any more.
  void give_back(Bundle& bundle);
  // Forgets a group that is no longer in the queue, with all that is in it. Says nothing of the group itself.
  void end_group(Groups::iterator it, const std::string& reason, Events& events);

  // -- nodes.cpp -------------------------------------------------------------------------------

  // Takes back what is on a node, or on one device of it.
  void lose_on(const Node& node, std::optional<int> index, const std::string& reason, Events& events);

  // -- restore.cpp -----------------------------------------------------------------------------

  Result<Pool*> source_of(const Lease& lease);

  // -- reservations.cpp ------------------------------------------------------------------------

  Lens binding(QueueKey key) const;
  template <class Visit>
  void for_each_oldest(Visit visit);
  Claim& claim_of(const Entry& entry);
  void sync_claims();
  // A grant behind them in the queue passes over the blocked requests that could have used it.
  void count_pass(QueueKey key, const Placement& granted);
  bool could_have_used(const ShapeKey& key, const Placement& granted) const;
  // What was held back is there for others.
  void end_reservation(Claim& claim);
  bool expire_reservations();
  void make_due_reservations();
  void reserve(const Entry& entry);
  std::vector<Place> choose_target(const Entry& entry, const Claim& claim);
  std::optional<std::pair<Cost, Place>> best_place_in(Pool& pool, const ResourceRequest& request, const Claim& claim,
                                                      const Lens& lens) const;
  Cost cost_of(const Place& place, const Claim& claim) const;
  // Where the lens of a claim looks: at all there is, but for what those before it and its own ancestors keep.
  Lens target_lens(const Entry& entry) const;
  // Moves reservations to where less is missing since something was given back.
  void move_reservations();
  void drop_reservations_on(const Node& node);

  LedgerOptions options_;
  ledger_detail::Cluster cluster_;
  ledger_detail::Queue queue_;
  Records records_;
  std::map<RequestId, LeaseId> holders_;
  Groups groups_;
  std::map<int, Claim> claims_;
  // Nodes and bundles that got something back since the last pump, as far as it matters to a reservation.
  std::vector<Pool*> freed_;
  // Where more is free for some of those that wait than at the last pump.
  ledger_detail::Freed changed_;
  // How many waiting requests each lease has as their parent.
  std::map<LeaseId, std::size_t> waiting_children_;
  // A group waits that was not there before: the next call serves the queue.
  bool serve_due_ = false;
  // Bundles of groups that shrink which a lease has left since the last pump; and groups that have lost some, with the
  // reason.
  std::set<std::pair<GroupId, int>> left_;
  std::map<GroupId, std::string> shrunk_;
  // Nodes or ancestors have changed: look again at what can ever be satisfied.
  bool recheck_due_ = false;
  TimePoint now_ = TimePoint::min();
  std::uint64_t next_lease_ = 0;
  std::uint64_t epoch_ = 0;
  bool paused_ = false;
  bool expecting_ = false;
  std::uint64_t next_pool_ = 0;
};

} // namespace gpuactors
