// The members of one training, from their start to their end: behind `train_group`.
//
// group.cpp has who takes part: the start, and who is lost. group_epochs.cpp has what they do: epochs and checkpoints.
#pragma once

#include "group.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace train {

/// Tells the groups of all programs of a cluster apart.
std::string group_name();

/// Adds what all members say of one epoch to the outcome. @returns the same of all together.
Progress add_parts(Outcome& outcome, const std::vector<Progress>& parts);

/// The members of one training, from their start to their end.
class Group {
public:
  Group(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher)
    : cluster_(cluster), spec_(spec), watcher_(watcher) {
    // nop
  }

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  ~Group() {
    for (const auto& member : members_)
      static_cast<void>(cluster_.kill(member));
    if (places_)
      static_cast<void>(cluster_.remove_group(*places_));
  }

  gpuactors::Result<GroupOutcome> train();

private:
  /// How often results are looked at.
  static constexpr auto look = std::chrono::milliseconds{100};

  /// Takes the places of all members together: two groups with half of theirs each would wait for each other.
  gpuactors::Result<void> take_places();
  gpuactors::Result<void> start();
  /// Puts the members together, without those that died meanwhile.
  gpuactors::Result<void> form();
  gpuactors::Result<void> join();
  gpuactors::Result<Status> await_join(gpuactors::Future<Status> joined);
  /// The same with those that live, however many die over it.
  gpuactors::Result<void> join_all();
  /// Learns until all epochs are over, or it is told to stop.
  gpuactors::Result<void> learn();
  /// One epoch: true when it is over, false when it was given up.
  gpuactors::Result<bool> learn_epoch();
  /// Ends the epoch for all members. @returns which of them live.
  std::vector<bool> leave();
  /// What becomes of the group after an error, without the members that died over it. Where all live, NCCL is to blame
  /// for an error that came `while_summing`.
  gpuactors::Result<void> lose(const gpuactors::Error& error, bool while_summing);
  /// When something happens now, for people.
  [[nodiscard]] std::string now() const;
  void note(const std::vector<Progress>& parts);
  gpuactors::Result<void> save_if_due();
  /// Asks the first member, or the next one when that dies over it.
  template <class Reply>
  gpuactors::Result<Reply> ask_first(const char* method);

  gpuactors::Cluster& cluster_;
  const GroupSpec& spec_;
  const Watcher& watcher_;
  std::optional<gpuactors::GroupId> places_;
  std::vector<gpuactors::ActorRef> members_;
  bool by_nccl_ = false;
  bool joined_ = false;
  /// What the members sum in; formed anew for those that are left.
  std::optional<gpuactors::CollectiveGroup> peers_;
  std::uint64_t epochs_ = 0;
  /// Of the last batch.
  std::optional<double> loss_;
  Outcome outcome_;
};

} // namespace train
