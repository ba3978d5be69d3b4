#include "keeper_bell.hpp"

namespace serve {

using gpuactors::Duration;

void KeeperBell::ring() {
  const std::lock_guard lock{mutex_};
  rung_ = true;
  wake_.notify_all();
}

void KeeperBell::stop(bool replicas_stay) {
  const std::lock_guard lock{mutex_};
  stopped_ = true;
  replicas_stay_ = replicas_stay_ || replicas_stay;
  wake_.notify_all();
}

bool KeeperBell::wait(Duration most) {
  std::unique_lock lock{mutex_};
  wake_.wait_for(lock, most, [this] { return rung_ || stopped_; });
  rung_ = false;
  return !stopped_;
}

bool KeeperBell::replicas_stay() const {
  const std::lock_guard lock{mutex_};
  return replicas_stay_;
}

bool KeeperBell::stopped() const {
  const std::lock_guard lock{mutex_};
  return stopped_;
}

} // namespace serve
