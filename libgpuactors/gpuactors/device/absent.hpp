// A device that was offered but is not there.
#pragma once

#include <gpuactors/device/backend.hpp>

namespace gpuactors {

/// Stands for a device that a node was told to offer beyond those that exist: scheduling counts it, using it fails.
/// Any thread.
class AbsentDevice final : public Device {
public:
  /// @param reason what every use of it reports, with the numbers.
  AbsentDevice(DeviceInfo info, std::string reason) : info_(std::move(info)), reason_(std::move(reason)) {
    // nop
  }

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return info_;
  }

  Result<DeviceMemory> memory() override {
    return fail(Errc::device_lost, reason_);
  }

  Result<std::unique_ptr<Backend>> open(const BackendOptions&) override {
    return fail(Errc::device_lost, reason_);
  }

private:
  DeviceInfo info_;
  std::string reason_;
};

} // namespace gpuactors
