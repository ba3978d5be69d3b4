// Forming groups of actors whose class is made `WithPeers`: the program's part.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/actor_ref.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpuactors {

/// A group as it was formed. Copyable; any thread. It does not end when this object does: its members know each other.
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

  /// Returns the random number that tells this group from all others.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_;
  }

  /// Ends the group: what its members call, now and later, fails with `cancelled` and `reason`. Does not wait for them.
  /// Has no effect on members that are in another group by now.
  void abort(std::string_view reason) const;

private:
  std::uint64_t generation_;
  std::vector<ActorRef> members_;
};

/// Makes the actors members of one group, with ranks in the order of the list, and returns when all have joined. A
/// group that a member was in before is over, for all its members; so the same call forms a group anew after one of
/// them was started anew or replaced. Wait for the answers of all members' calls first: one that waits for its turn
/// would begin in the new group. An answer `deadline_exceeded` or `cancelled` is not the end of its method: that may
/// still run, and its operations fail in the new group, which goes on. Any thread, also those of tasks and actors.
/// @param timeout bounds each of the two steps: all join, all begin.
/// @returns `invalid_argument` for an empty list, an empty reference or an actor that is in the list twice;
///          `not_found` if an actor's type has not registered `collective_method`; `deadline_exceeded` after the
///          timeout; `actor_died` or `worker_died` for a member that is dead, with its rank and name.
Result<CollectiveGroup> form_collective(std::vector<ActorRef> members, Duration timeout = limits::call_deadline);

} // namespace gpuactors
