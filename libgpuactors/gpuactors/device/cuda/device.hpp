// CudaDevice: one device that the driver shows to this process.
#pragma once

#include <gpuactors/device/cuda/backend.hpp>

#include <atomic>

namespace gpuactors::cuda {

/// What the process has of CUDA, once. Never destroyed: the driver may be gone before static objects are.
struct Runtime {
  Driver driver;
  Cublas cublas;
  Images images;
  Splits splits;
  RuntimeKernels runtime_kernels;

  Runtime(const Driver& driver_table, const Cublas& cublas_table)
    : driver(driver_table), cublas(cublas_table), images(driver), runtime_kernels(driver) {
    // nop
  }
};

/// A device. Its primary context is retained when it is first opened, and then kept: making one takes long. Any thread.
class CudaDevice final : public BasicDevice {
public:
  CudaDevice(Runtime& runtime, DeviceInfo info) : runtime_(runtime), info_(std::move(info)) {
    // nop
  }

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return info_;
  }

  Result<DeviceMemory> memory() override;
  Result<std::unique_ptr<Backend>> open(const BackendOptions& options) override;
  [[nodiscard]] bool is_open() const override {
    return open_;
  }

  Result<std::size_t> shared_footprint(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes) override;
  void dispose(std::shared_ptr<void> what) override {
    closer_->add(std::move(what));
  }

  /// Its context, retained if it is not yet.
  Result<std::shared_ptr<Primary>> primary();

private:
  Result<Shared> enter();

  Runtime& runtime_;
  DeviceInfo info_;
  std::mutex mutex_;
  std::shared_ptr<Primary> primary_;
  std::shared_ptr<Poller> poller_;
  std::shared_ptr<Split> split_;
  std::shared_ptr<PinnedPool> pinned_;
  std::shared_ptr<Products> products_;
  const std::shared_ptr<Closer> closer_ = std::make_shared<Closer>();
  const std::shared_ptr<PoolList> pools_ = std::make_shared<PoolList>();
  /// Whether `primary_` is there, for who must not wait for it.
  std::atomic<bool> open_{false};
};

/// What the driver says of the device with `ordinal`. Creates no context.
Result<DeviceInfo> describe(const Driver& driver, int ordinal);

} // namespace gpuactors::cuda
