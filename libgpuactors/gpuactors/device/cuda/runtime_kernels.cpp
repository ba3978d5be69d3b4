// From source to the driver's handle.
#include <gpuactors/device/cuda/runtime_kernels.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors::cuda {

Result<RuntimeKernel> RuntimeKernels::find(const KernelSource& source, int capability, int ordinal) {
  if (const char* wish = std::getenv("GPUACTORS_JIT"); wish != nullptr && std::string_view{wish} == "off")
    return fail(Errc::unsupported,
                fmt::format("kernel {} is not compiled: GPUACTORS_JIT=off is set in this process", source.name));
  GPUACTORS_LET(compiler, Compiler::get());
  GPUACTORS_LET(architecture, compiler->architecture_for(capability));
  GPUACTORS_LET(code, cache_.find(source, architecture, compiler->version(),
                                  [&] { return compiler->compile(source, architecture); }));
  const std::lock_guard guard{mutex_};
  auto& kernel = loaded_[code.entry + '\n' + code.code];
  if (kernel != nullptr)
    return RuntimeKernel{kernel, source.name};
  const CallSite site{ordinal, Errc::launch_failed, "kernel " + source.name};
  CUlibrary library = nullptr;
  GPUACTORS_TRY(check(driver_,
                      driver_.library_load_data(&library, code.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                      "cuLibraryLoadData", site));
  CUkernel found = nullptr;
  auto outcome =
      check(driver_, driver_.library_get_kernel(&found, library, code.entry.c_str()), "cuLibraryGetKernel", site);
  if (!outcome) {
    (void)driver_.library_unload(library);
    return fail(outcome.error());
  }
  kernel = found;
  return RuntimeKernel{kernel, source.name};
}

} // namespace gpuactors::cuda
