// A device that was offered but does not exist.
#pragma once

#include <gpuactors/device/backend.hpp>

namespace gpuactors {

/// Stands for a device that a node offers but does not have: scheduling counts it, using it fails. Any thread.
class AbsentDevice final : public BasicDevice {
public:
  /// @param reason the error text of every use, with the numbers.
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
