#include <gpuactors/device/cuda/pool_list.hpp>

namespace gpuactors::cuda {

void PoolList::add(Keeper& keeper) {
  const std::lock_guard guard{mutex_};
  keepers_.push_back(&keeper);
}

void PoolList::remove(Keeper& keeper) noexcept {
  const std::lock_guard guard{mutex_};
  std::erase(keepers_, &keeper);
}

bool PoolList::give_back() noexcept {
  const std::lock_guard guard{mutex_};
  bool was_all = true;
  for (auto* keeper : keepers_)
    was_all = keeper->give_back() && was_all;
  return was_all;
}

} // namespace gpuactors::cuda
