// Forms groups of actors that derive from `WithPeers`: the program's part.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/actor_ref.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpuactors {

/// A group that was formed. Copyable; any thread. The group does not end with this object: its members know each other.
class CollectiveGroup {
public:
  CollectiveGroup(std::uint64_t generation, std::vector<ActorRef> members)
    : generation_(generation), members_(std::move(members)) {
    // nop
  }

  /// Return the members in the order of their ranks.
  [[nodiscard]] const std::vector<ActorRef>& members() const noexcept {
    return members_;
  }

  /// Returns the random number that identifies this group.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_;
  }

  /// Ends the group: the operations of its members, now and later, fail with `cancelled` and `reason`. Does not wait
  /// for the members. Has no effect on members that are in another group by now.
  void abort(std::string_view reason) const;

private:
  std::uint64_t generation_;
  std::vector<ActorRef> members_;
};

/// Forms one group, with ranks in list order, and returns when all have joined. An earlier group of any of them is over
/// for all of its members; so the same call re-forms a group after a member was restarted or replaced. First wait for
/// the answers of all calls to the members: a call still queued would begin in the new group. After `deadline_exceeded`
/// or `cancelled`, a method may still run; its operations then fail, and the new group goes on. Any thread, also those
/// of tasks and actors.
/// @param timeout bounds each of the two steps: all join, all begin.
/// @returns `invalid_argument` for an empty list, an empty reference or an actor that is in the list twice;
///          `not_found` if an actor's type has not registered `collective_method`; `deadline_exceeded` after the
///          timeout; `actor_died` or `worker_died` for a member that is dead, with its rank and name.
Result<CollectiveGroup> form_collective(std::vector<ActorRef> members, Duration timeout = limits::call_deadline);

} // namespace gpuactors
