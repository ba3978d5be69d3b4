// A device that fails on command: decorates any other device, for tests of everything above it.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/faulty/plan.hpp>

#include <memory>

namespace gpuactors::faulty {

/// Passes every call on to `inner`, unless `plan` says that the call fails. An operation that fails by plan has no
/// effect. Without rules, the device behaves like `inner`. Threads: as `inner`.
class FaultyDevice final : public Device {
public:
  FaultyDevice(std::shared_ptr<Device> inner, std::shared_ptr<Plan> plan);

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return inner_->info();
  }

  Result<DeviceMemory> memory() override;
  Result<std::unique_ptr<Backend>> open(const BackendOptions& options) override;

private:
  std::shared_ptr<Device> inner_;
  std::shared_ptr<Plan> plan_;
};

} // namespace gpuactors::faulty
