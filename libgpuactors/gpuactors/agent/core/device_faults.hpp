// Devices that fail: what is said of them, and when sticky errors count as a failure.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <deque>
#include <map>
#include <string>

namespace gpuactors {

/// The error text for work on a failed device.
[[nodiscard]] std::string describe_fault(const std::string& node, int device, const std::string& reason);

/// Counts the workers that a device has cost, for instance by sticky errors: one costs the process, not the device,
/// unless it happens again and again. A plain value; one thread.
class DeviceLosses {
public:
  /// A worker has lost the device. @returns whether this is the loss too many: the `limits::device_losses`-th within
  /// `limits::device_loss_window`.
  [[nodiscard]] bool note(int device, TimePoint now);

  /// The device does what it should: earlier losses do not count any more.
  void forget(int device) {
    losses_.erase(device);
  }

private:
  std::map<int, std::deque<TimePoint>> losses_;
};

} // namespace gpuactors
