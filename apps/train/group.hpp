// Several workers that train one network together, and what happens when one of them dies.
#pragma once

#include "session.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace train {

/// What becomes of a group that has lost a member.
enum class OnLoss : std::uint8_t {
  /// It ends with an error.
  stop,
  /// The others go back to the beginning of the epoch and go on, with smaller batches.
  shrink,
  /// It is started anew, and all go on from the beginning of the epoch, at most `max_restarts` times.
  restart,
};

struct GroupSpec {
  Plan plan;
  std::size_t workers = 2;
  OnLoss on_loss = OnLoss::stop;
  std::uint64_t epochs = 1;
  /// What each worker asks for.
  gpuactors::Options options;
};

struct GroupOutcome {
  Outcome outcome;
  /// Members at the end.
  std::size_t workers = 0;
};

/// Whether members that are so can sum by NCCL: all on CUDA devices, no two on one, with one version of NCCL. Pure.
[[nodiscard]] bool can_sum_by_nccl(const std::vector<Status>& members);

/// Starts the workers, trains and ends them. The checkpoint of the plan is written by the first of them. Watchers are
/// told once an epoch; a stop takes effect at once, and what was learnt of the epoch under way is given up. Sums by
/// NCCL only where the plan allows it, and by messages in a group that restarts.
/// @returns the error that ended it; with `OnLoss::stop` that of the member that died, by name.
gpuactors::Result<GroupOutcome> train_group(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher);

} // namespace train
