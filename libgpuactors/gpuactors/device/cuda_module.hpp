// Access to CUDA through a module that is loaded at run time, so everything starts without a driver, toolkit or cuBLAS.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <vector>

namespace gpuactors {

/// The interface of libgpuactors_cuda.so. One object per process, never destroyed. Any thread.
class CudaModule {
public:
  /// The version of this interface. A module with another version is refused.
  static constexpr int abi = 6;

  /// Loads and initialises the driver; creates no context. Idempotent.
  /// @returns `unsupported`, in one line: no driver, a driver that is too old, no cuBLAS; `unavailable`, `device_lost`
  ///          or `context_lost` as the driver says it.
  virtual Result<void> start() = 0;

  /// Returns the devices that the driver shows to this process (after CUDA_VISIBLE_DEVICES), in the driver's order:
  /// `ordinal` and `index` are the position. Creates no context.
  virtual Result<std::vector<DeviceInfo>> devices() = 0;

  /// Returns the device with the ordinal of `info`, described by `info`. Creates no context until it is opened.
  virtual Result<std::shared_ptr<Device>> device(const DeviceInfo& info) = 0;

protected:
  ~CudaModule() = default;
};

/// Returns whether the number of hardware queues in this process's environment (CUDA_DEVICE_MAX_CONNECTIONS) is the one
/// that this library has put there, and not one that somebody wants. Not while other threads change the environment.
[[nodiscard]] bool chose_hardware_queues();

/// Loads the module from this library's folder, else from the loader's path, and starts it. All calls return the result
/// of the first one. Any thread.
Result<CudaModule*> load_cuda_module();

/// Loads the module from the file `path`, again at each call.
Result<CudaModule*> load_cuda_module(const std::string& path);

} // namespace gpuactors

/// The only symbol of the module; returns null if the module does not support version `abi`.
extern "C" gpuactors::CudaModule* gpuactors_cuda_module(int abi);
