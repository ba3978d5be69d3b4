#include <gpuactors/agent/core/device_faults.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

namespace gpuactors {

std::string describe_fault(const std::string& node, int device, const std::string& reason) {
  return fmt::format("device {} of node {} has failed: {}", device, node, reason);
}

bool DeviceLosses::note(int device, TimePoint now) {
  auto& times = losses_[device];
  times.push_back(now);
  while (!times.empty() && now - times.front() > limits::device_loss_window)
    times.pop_front();
  return times.size() >= limits::device_losses;
}

} // namespace gpuactors
