// Keeping events.
#include <gpuactors/device/cuda/events.hpp>

namespace gpuactors::cuda {

Result<CUevent> Events::take() {
  {
    const std::lock_guard guard{mutex_};
    if (!spare_.empty()) {
      auto* event = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  return partition_.make_event();
}

void Events::give_back(CUevent event) {
  const std::lock_guard guard{mutex_};
  spare_.push_back(event);
}

void Events::clear() noexcept {
  const std::lock_guard guard{mutex_};
  for (auto* event : spare_)
    partition_.destroy_event(event);
  spare_.clear();
}

} // namespace gpuactors::cuda
