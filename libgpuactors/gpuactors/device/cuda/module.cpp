// The entry of libgpuactors_cuda.so.
#include <gpuactors/device/cuda/device.hpp>
#include <gpuactors/device/cuda_module.hpp>

#include <optional>

namespace gpuactors::cuda {

namespace {

class Module final : public CudaModule {
public:
  Result<void> start() override {
    std::lock_guard guard{mutex_};
    if (!started_)
      started_.emplace(load());
    return *started_;
  }

  Result<std::vector<DeviceInfo>> devices() override {
    GPUACTORS_TRY(start());
    const auto& driver = runtime_->driver;
    int count = 0;
    GPUACTORS_TRY(check(driver, driver.device_get_count(&count), "cuDeviceGetCount", {-1, Errc::unavailable, {}}));
    std::vector<DeviceInfo> list;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      GPUACTORS_LET(info, describe(driver, ordinal));
      list.push_back(std::move(info));
    }
    return list;
  }

  Result<std::shared_ptr<Device>> device(const DeviceInfo& info) override {
    GPUACTORS_TRY(start());
    return std::make_shared<CudaDevice>(*runtime_, info);
  }

private:
  Result<void> load() {
    GPUACTORS_LET(driver, load_driver());
    GPUACTORS_LET(cublas, load_cublas());
    runtime_ = new Runtime{driver, cublas};
    return {};
  }

  std::mutex mutex_;
  std::optional<Result<void>> started_;
  /// Never destroyed, as said there.
  Runtime* runtime_ = nullptr;
};

} // namespace

} // namespace gpuactors::cuda

extern "C" __attribute__((visibility("default"))) gpuactors::CudaModule* gpuactors_cuda_module(int abi) {
  // Never destroyed: devices may be used until the process ends.
  static auto* module = new gpuactors::cuda::Module;
  return abi == gpuactors::CudaModule::abi ? module : nullptr;
}
