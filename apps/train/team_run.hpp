// A group of workers that restarts those that it loses, by `gpuactors::Team`.
#pragma once

#include "group.hpp"

namespace train {

/// As `train_group`, for `OnLoss::restart`.
gpuactors::Result<GroupOutcome> train_team(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher);

} // namespace train
