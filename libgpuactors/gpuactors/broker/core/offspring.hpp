// Offspring: which actors and placement groups end with the actor, or the task, that has asked for them. Internal to
// the layer.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/v1/control.pb.h>

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace gpuactors {

/// An actor's life, or one run of a task; without a lease nobody.
struct Spawner {
  LeaseId lease;
  /// 0: an actor.
  std::uint64_t run = 0;

  friend auto operator<=>(const Spawner&, const Spawner&) = default;
};

inline Spawner spawner_of(const v1::Spawner& message) {
  return {LeaseId{message.lease()}, message.run()};
}

class Offspring {
public:
  struct Members {
    std::set<ActorId> actors;
    std::set<GroupId> groups;
  };

  void add(const Spawner& spawner, ActorId actor) {
    if (spawner.lease)
      members_[spawner].actors.insert(actor);
  }

  void add(const Spawner& spawner, GroupId group) {
    if (spawner.lease)
      members_[spawner].groups.insert(group);
  }

  void remove(const Spawner& spawner, ActorId actor) {
    remove(spawner, [actor](Members& members) { members.actors.erase(actor); });
  }

  void remove(const Spawner& spawner, GroupId group) {
    remove(spawner, [group](Members& members) { members.groups.erase(group); });
  }

  [[nodiscard]] Members of(const Spawner& spawner) const {
    const auto found = members_.find(spawner);
    return found != members_.end() ? found->second : Members{};
  }

  /// Of the lease's actor, or of all runs of its tasks.
  [[nodiscard]] Members of(LeaseId lease) const {
    Members all;
    const auto last = members_.upper_bound({lease, std::numeric_limits<std::uint64_t>::max()});
    for (auto it = members_.lower_bound({lease, 0}); it != last; ++it) {
      all.actors.insert(it->second.actors.begin(), it->second.actors.end());
      all.groups.insert(it->second.groups.begin(), it->second.groups.end());
    }
    return all;
  }

  [[nodiscard]] std::vector<Spawner> spawners() const {
    std::vector<Spawner> result;
    for (const auto& [spawner, members] : members_)
      result.push_back(spawner);
    return result;
  }

private:
  template <class F>
  void remove(const Spawner& spawner, F&& from) {
    const auto found = members_.find(spawner);
    if (found == members_.end())
      return;
    from(found->second);
    if (found->second.actors.empty() && found->second.groups.empty())
      members_.erase(found);
  }

  std::map<Spawner, Members> members_;
};

} // namespace gpuactors
