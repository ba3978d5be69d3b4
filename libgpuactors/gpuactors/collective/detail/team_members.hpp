// TeamMembers: the actors of a team and their places: started, put together, asked whether they live, replaced.
#pragma once

#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/collective/detail/team_bell.hpp>
#include <gpuactors/collective/detail/team_core.hpp>
#include <gpuactors/collective/group.hpp>
#include <gpuactors/collective/team.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// One thread at a time, the team's, except `refs`.
class TeamMembers {
public:
  TeamMembers(Cluster& cluster, std::string type, std::vector<PayloadMember> members, TeamOptions options,
              std::shared_ptr<TeamBell> bell);

  [[nodiscard]] std::size_t size() const noexcept {
    return members_.size();
  }

  /// @returns the members by rank; empty references for those that do not run. Any thread.
  [[nodiscard]] std::vector<ActorRef> refs() const;

  /// Checks the options, and reserves the places if they are not.
  Result<void> reserve();

  /// Starts those that do not run. @returns what became of each; without an error for all that run now.
  std::vector<MemberEnd> start();

  /// Puts the running members together.
  Result<void> join();

  /// Ends the operations of all members.
  void part(const std::string& reason) const;

  /// Asks all members whether they are there. @returns what became of each; with an error for those that do not answer.
  std::vector<MemberEnd> ask() const;

  /// Whether the cluster was closed: nobody can be replaced any more.
  [[nodiscard]] bool closed() const noexcept {
    return cluster_.closed();
  }

  /// Ends members, by rank, so that they can be started anew. Returns when they have ended.
  void end(const std::vector<bool>& ended);

private:
  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] std::string name_of_rank(std::size_t rank) const;

  Cluster& cluster_;
  std::string type_;
  std::vector<PayloadMember> members_;
  TeamOptions options_;
  std::shared_ptr<TeamBell> bell_;
  OwnedGroup places_;
  std::optional<CollectiveGroup> group_;
  mutable std::mutex mutex_;
  /// Guarded by the mutex; changed by the team's thread alone.
  std::vector<OwnedActor> actors_;
};

} // namespace gpuactors::detail
