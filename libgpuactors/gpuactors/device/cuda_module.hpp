// The door to CUDA: a module that is loaded at run time, so that everything starts without a driver, a toolkit or
// cuBLAS.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <vector>

namespace gpuactors {

/// What libgpuactors_cuda.so offers. One object a process, never destroyed. Any thread.
class CudaModule {
public:
  /// Number of this interface. A module of another number is refused, not misread.
  static constexpr int abi = 4;

  /// Loads and initialises the driver; creates no context. Idempotent.
  /// @returns `unsupported`, in one line: no driver, a driver that is too old, no cuBLAS.
  virtual Result<void> start() = 0;

  /// The devices that the driver shows to this process (CUDA_VISIBLE_DEVICES has been applied by the driver), in its
  /// order: `ordinal` and `index` are the position. Creates no context.
  virtual Result<std::vector<DeviceInfo>> devices() = 0;

  /// The device with the ordinal of `info`, presented as `info`. Creates no context until it is opened.
  virtual Result<std::shared_ptr<Device>> device(const DeviceInfo& info) = 0;

protected:
  ~CudaModule() = default;
};

/// Loads the module from beside this library, else from the loader's path, and starts it. The outcome of the first
/// call stays: all calls return the same. Any thread.
Result<CudaModule*> load_cuda_module();

/// The same for the module in the file `path`, tried anew at each call.
Result<CudaModule*> load_cuda_module(const std::string& path);

} // namespace gpuactors

/// The one symbol of the module; null when it does not speak version `abi`.
extern "C" gpuactors::CudaModule* gpuactors_cuda_module(int abi);
