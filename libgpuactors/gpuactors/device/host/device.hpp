// HostDevice: cores and memory of this machine as a device, with the same quota, order and accounting as a GPU.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/quota.hpp>

#include <memory>

namespace gpuactors::host {

class Pool;

/// A CPU device. Its contexts together use as many threads as their shares grant, its allocations together no more
/// than `info().memory_bytes`. Outlives its backends. Any thread.
class HostDevice final : public BasicDevice {
public:
  /// @param info kind, name and so on; `units` (at least 1) are cores, `memory_bytes` is the limit of all leases.
  explicit HostDevice(DeviceInfo info);
  ~HostDevice() override;

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return info_;
  }

  Result<DeviceMemory> memory() override;
  Result<std::unique_ptr<Backend>> open(const BackendOptions& options) override;

private:
  DeviceInfo info_;
  std::shared_ptr<Quota> quota_;
  std::unique_ptr<Pool> pool_;
};

/// Returns how many threads a context with `share` of a device with `units` cores may use: the share of the cores
/// rounded down, but at least one. Pure.
[[nodiscard]] int threads_for_share(Share share, int units) noexcept;

} // namespace gpuactors::host
