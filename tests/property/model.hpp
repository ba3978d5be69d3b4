// A second scheduler, as naive as can be: it keeps a list of what is held, adds everything up anew for every question,
// and looks at every device of every node. It shares no code with the ledger but base/ and the plain data.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace model {

using gpuactors::BundleGrant;
using gpuactors::DeviceGrant;
using gpuactors::Event;
using gpuactors::GroupRequest;
using gpuactors::NodeSpec;
using gpuactors::ResourceRequest;
using gpuactors::Share;
using gpuactors::TimePoint;

/// Where amounts are taken from: a node, a bundle of a group, or a lease (named by its request).
struct Source {
  std::string node;
  std::uint64_t group = 0;
  int bundle = 0;
  std::uint64_t lease = 0;

  friend auto operator<=>(const Source&, const Source&) = default;
};

struct Amounts {
  std::vector<DeviceGrant> devices;
  Share cpus;
  std::map<std::string, Share> resources;
};

/// Amounts of a source that are left out of the count.
struct Taken {
  Source source;
  Amounts amounts;
};

struct Held {
  ResourceRequest request;
  Source source;
  Amounts amounts;
  std::uint64_t lender = 0;
  std::uint64_t asked_by = 0;
  bool ended = false;
  /// It was lost, and its holder is still there.
  bool stays = false;
  /// Of a rest: the lender whose rest it is of.
  std::uint64_t taken_from = 0;
};

/// Adds to what is kept of a lease what a borrower has kept of it.
void put_back(Amounts& rest, const Amounts& borrowed);

struct Waiting {
  std::uint64_t id = 0;
  std::uint64_t group = 0;
  ResourceRequest request;
  TimePoint since;
  TimePoint deadline;
  std::uint64_t age = 0;
  int priority = 0;
};

struct Group {
  GroupRequest request;
  // By number; those that wait for a place, or have gone for good, are not there.
  std::map<int, BundleGrant> bundles;
  std::uint64_t age = 0;
  bool placed = false;
  std::set<int> gone;
  // Of one that shrinks, since it was last looked at: it has lost bundles, and these were left by a lease.
  bool shrunk = false;
  std::set<int> left;
};

/// One event as far as the two must agree.
struct Outcome {
  Event::Kind kind;
  std::uint64_t request = 0;
  std::uint64_t group = 0;
  std::string place;

  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};

struct Options {
  gpuactors::Duration reservation_after;
  int reservation_passes;
  gpuactors::Duration reservation_for;
};

/// Renders nodes and devices, for comparison.
std::string place_text(const std::string& node, const std::vector<DeviceGrant>& devices);

/// The naive scheduler. Requests are named by their ids; a parent is named by its request, not by its lease.
class Model {
public:
  explicit Model(Options options) : options_(options) {
    // nop
  }

  // Each answers what the ledger must answer, in any order. `events` is what the ledger said: where a group goes is
  // taken from there, if that place is right.
  using Outcomes = std::vector<Outcome>;
  Outcomes submit(std::uint64_t id, ResourceRequest request, std::uint64_t parent, const std::vector<Event>& events);
  Outcomes release(std::uint64_t id, const std::vector<Event>& events);
  Outcomes cancel(std::uint64_t id, const std::vector<Event>& events);
  Outcomes submit_group(std::uint64_t id, GroupRequest request, const std::vector<Event>& events);
  Outcomes release_group(std::uint64_t id, const std::vector<Event>& events);
  Outcomes add_node(const NodeSpec& spec, const std::vector<Event>& events);
  Outcomes remove_node(const std::string& name, const std::vector<Event>& events);
  Outcomes drain_node(const std::string& name, const std::vector<Event>& events);
  Outcomes set_types(const std::string& name, const std::optional<std::vector<std::string>>& types,
                     const std::vector<gpuactors::Event>& events);
  Outcomes undrain_node(const std::string& name, const std::vector<Event>& events);
  /// @param stay the holders of what is lost keep the rest of it, until it is released.
  Outcomes fail_device(const std::string& name, int index, bool stay, const std::vector<Event>& events);
  /// Nothing as the limit removes the quota.
  Outcomes set_quota(const std::string& owner, std::optional<Share> limit, const std::vector<Event>& events);
  Outcomes advance(TimePoint now, const std::vector<Event>& events);

  // What histories choose from.
  std::vector<std::uint64_t> live_leases() const;
  /// Requests whose leases were lost and of which something is kept.
  std::vector<std::uint64_t> remains() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, rest] : remains_)
      ids.push_back(id);
    for (const auto& [id, held] : held_)
      if (held.stays)
        ids.push_back(id);
    return ids;
  }
  std::vector<std::uint64_t> waiting_requests() const;
  std::vector<std::uint64_t> live_groups() const;
  std::vector<std::string> node_names() const;
  TimePoint now() const {
    return now_;
  }

  /// What is free on a device of a node.
  DeviceGrant free_of(const std::string& node, int index) const;

  /// Checks G2 by itself: whatever waits and fits is behind a reservation that leaves it no room; a priority has at
  /// most one, and its holder is the oldest of that priority that could be given a place. @returns what is wrong, or
  /// nothing.
  std::string broken_promise(const std::vector<gpuactors::ReservationView>& reservations) const;

  /// Whether a request (or a group, if that is not 0) waits and could be served, but by drained nodes only.
  bool waits_for_drained(std::uint64_t id, std::uint64_t group) const;

  /// What an owner holds, the slow way, in units.
  std::int64_t used_by(const std::string& owner) const;
  bool has_quota(const std::string& owner) const {
    return limits_.count(owner) > 0;
  }
  /// Whether a request (or a group, if that is not 0) waits that its owner's quota leaves no room for, now or ever.
  bool is_over_quota(std::uint64_t id, std::uint64_t group) const;
  /// Likewise, and it would have room if its owner held less.
  bool waits_for_owner(std::uint64_t id, std::uint64_t group) const;

  /// Broken expectations about places of groups; empty when all is well.
  const std::string& complaint() const {
    return complaint_;
  }

  struct Node {
    NodeSpec spec;
    bool draining = false;
    std::set<int> failed;
  };

private:
  struct Reservation {
    std::uint64_t holder_age = 0;
    TimePoint since;
    int passes = 0;
    bool held = false;
    Taken taken;
    TimePoint until;
    std::map<std::pair<Source, int>, int> vain;
  };

  Amounts all_of(const Source& source) const;
  const Node& node_of(const Source& source) const;
  Amounts left_of(const Source& source, bool all, const std::vector<Taken>& taken) const;
  std::optional<std::vector<DeviceGrant>> choose(const Source& source, const ResourceRequest& request, bool all,
                                                 const std::vector<Taken>& taken, std::int64_t most = Share::one) const;
  std::optional<std::vector<DeviceGrant>> choose_whole(const Source& source, const ResourceRequest& request,
                                                       const Amounts& left) const;
  std::optional<Taken> choose_node(const ResourceRequest& request, const std::vector<Taken>& taken,
                                   std::int64_t most) const;
  std::int64_t limit_of(const std::string& owner) const;
  std::int64_t room_of(const std::string& owner) const;
  // What the owner's quota could have for the request at most.
  std::int64_t most_for(const ResourceRequest& request) const;
  // The least that it takes of a quota: none in a group, and of a group what waits for a place.
  std::int64_t least_of(const ResourceRequest& request) const;
  std::int64_t least_of(const Waiting& waiting) const;
  std::string owner_of(const Waiting& waiting) const;
  std::optional<Taken> find_place(const Waiting& waiting, std::uint64_t& lender) const;
  bool is_feasible(const Waiting& waiting, bool drained_too = true) const;
  bool group_fits(const Group& group, bool all, bool drained_too, std::vector<Taken> taken = {}) const;
  bool group_fits_from(const Group& group, bool all, bool drained_too, int bundle, std::vector<Taken>& taken,
                       std::vector<std::string>& nodes) const;
  bool lacks(const ResourceRequest& in_group) const;
  bool waits_before(const Waiting& a, const Waiting& b) const;
  std::vector<Taken> held_back(const Waiting& waiting) const;
  std::vector<Taken> held_by_ancestors(std::uint64_t parent) const;
  std::vector<std::uint64_t> ancestors(std::uint64_t parent) const;

  bool try_grant(const Waiting& waiting, const std::vector<Event>& events, Outcomes& out);
  bool adopt_group(std::uint64_t id, const std::vector<Event>& events, Outcomes& out);
  void enqueue(Waiting waiting, const std::vector<Event>& events, Outcomes& out);
  void settle(const std::vector<Event>& events, Outcomes& out);
  void serve(const std::vector<Event>& events, Outcomes& out);
  void answer_vain(Outcomes& out);
  void end(std::uint64_t id);
  void lose(const std::set<std::uint64_t>& ids, Outcomes& out);
  void end_group(std::uint64_t id, Outcomes& out);
  void lose_bundles(std::uint64_t id, const std::set<int>& numbers, Outcomes& out);
  void shrink_groups(Outcomes& out);
  bool waits_for_nodes(const Waiting& waiting) const;
  std::set<std::uint64_t> held_in(std::uint64_t group, const std::function<bool(int)>& bundle) const;
  void lose_on(const std::string& name, std::optional<int> index, Outcomes& out);
  void keep_remains(const std::map<std::uint64_t, Held>& before, const Outcomes& lost);
  void keep_rest(std::uint64_t id, const Held& was, std::uint64_t lender);
  void keep_rests_within(std::uint64_t lender, const Held& was);
  void pass_time(const std::vector<Event>& events, Outcomes& out);
  void sync_reservations();
  void count_pass(const Waiting& granted, const Source& source, const std::vector<DeviceGrant>& devices);
  void reserve(const Waiting& waiting);
  void move_reservations();
  std::optional<std::pair<std::pair<std::int64_t, std::int64_t>, Taken>>
  best_place_in(const Source& source, const Waiting& waiting, const Reservation& reservation) const;
  std::pair<std::int64_t, std::int64_t> cost_of(const Taken& place, const Reservation& reservation) const;
  std::map<int, const Waiting*, std::greater<>> oldest() const;
  bool could_use(const Waiting& waiting, const Source& source, const std::vector<DeviceGrant>& devices) const;
  void count_in_vain(Reservation& reservation) const;
  // On a node, also in bundles there; in one bundle.
  void drop_reservations_on(const std::string& name);
  void drop_reservations_in(const Source& source);
  // What it held is the node's again; the group still has it.
  void give_back(std::uint64_t group, const BundleGrant& bundle);
  void forget(std::uint64_t id, std::uint64_t group);

  Options options_;
  std::map<std::string, Node> nodes_;
  std::map<std::uint64_t, Held> held_;
  // What is kept of lost leases: the source is a node, the request has only the owner. What has a lender is a part of
  // that one's lease, which has ended and is lent to others.
  std::map<std::uint64_t, Held> remains_;
  std::vector<Waiting> queue_;
  std::map<std::uint64_t, Group> groups_;
  std::map<int, Reservation> reservations_;
  std::vector<Source> freed_;
  std::map<std::string, std::int64_t> limits_;
  // A quota has less room: what was held back for its owner may have to go.
  bool charged_ = false;
  TimePoint now_{};
  std::uint64_t age_ = 0;
  std::string complaint_;
};

/// Types that requests may be for are called by their number in the ledger: the runner has them numbered from 1.
std::string type_name(gpuactors::TypeId type);

/// Whether a request with a group may draw from this bundle of it.
inline bool draws_from(const ResourceRequest& r, int bundle) {
  return r.bundle == -1 || r.bundle == bundle;
}

/// Whether the node's name, types and labels are as asked.
bool is_right_node(const Model::Node& node, const ResourceRequest& r);

} // namespace model
