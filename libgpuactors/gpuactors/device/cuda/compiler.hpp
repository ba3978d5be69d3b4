// CUDA C++ to machine code at run time, by NVRTC, which is optional: it is looked for at the first use.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/runtime_kernel.hpp>

#include <string>
#include <vector>

namespace gpuactors::cuda {

/// A compiled kernel, as the driver loads it.
struct KernelCode {
  /// What the kernel is called in the code.
  std::string entry;
  /// Machine code, or PTX for a chip that is newer than the compiler.
  std::string code;
};

/// NVRTC, loaded. Any thread.
class Compiler {
public:
  /// The one of this process; the outcome of the first call stays.
  /// @returns `unsupported` with one line when the library is not here.
  static Result<const Compiler*> get();

  /// "13.0"; part of what a cache goes by.
  [[nodiscard]] const std::string& version() const noexcept {
    return version_;
  }

  /// The `--gpu-architecture` for a chip of that compute capability (90 for 9.0): its machine code if the compiler
  /// knows it, else PTX for the newest chip before it.
  /// @returns `unsupported` when the chip is older than all that the compiler knows.
  [[nodiscard]] Result<std::string> architecture_for(int capability) const;

  /// @returns `invalid_argument` with the compiler's log, which names lines of "kernel.cu", when the source is wrong.
  [[nodiscard]] Result<KernelCode> compile(const KernelSource& source, const std::string& architecture) const;

  struct Library;

private:
  Compiler(const Library& library, std::string version, std::vector<int> chips)
    : library_(library), version_(std::move(version)), chips_(std::move(chips)) {
    // nop
  }

  static Result<const Compiler*> load();

  const Library& library_;
  std::string version_;
  /// Compute capabilities that it makes code for, lowest first.
  std::vector<int> chips_;
};

} // namespace gpuactors::cuda
