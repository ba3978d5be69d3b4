// Finding and loading libgpuactors_cuda.so.
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/mps.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace gpuactors {

namespace {

constexpr auto file_name = "libgpuactors_cuda.so";

/// Streams share the hardware queues of their context, 8 unless the driver is told otherwise, and those that share one
/// wait for each other, also when their SMs are not the same. 32 is the most there are. Under MPS they come out of what
/// all processes share, so that asking for more would keep processes out.
///
/// When the library is loaded, which is before `main` as a rule: to change the environment while other threads read it
/// is undefined. The driver reads it when it is started.
__attribute__((constructor)) void ask_for_hardware_queues() {
  if (!mps_runs(mps_folder()))
    (void)::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/// Where the module lies: beside the file that this code is in, in the library folder beside that, or wherever the
/// loader finds it.
std::string find_module() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find_module), &here) != 0 && here.dli_fname != nullptr) {
    std::error_code ignored;
    const auto folder = std::filesystem::absolute(here.dli_fname, ignored).parent_path();
    for (const auto& candidate : {folder / file_name, folder / ".." / "lib" / file_name}) {
      if (std::filesystem::exists(candidate, ignored))
        return candidate.string();
    }
  }
  return file_name;
}

} // namespace

Result<CudaModule*> load_cuda_module(const std::string& path) {
  // Never unloaded: backends that are still open run code in it.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return fail(Errc::unsupported,
                fmt::format("the CUDA module is not installed ({})", reason != nullptr ? reason : "not found"));
  }
  using Entry = CudaModule* (*)(int);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "gpuactors_cuda_module"));
  auto* module = entry != nullptr ? entry(CudaModule::abi) : nullptr;
  if (module == nullptr)
    return fail(Errc::unsupported,
                fmt::format("{} is no CUDA module of this version; install the one that was built with it", path));
  GPUACTORS_TRY(module->start());
  return module;
}

Result<CudaModule*> load_cuda_module() {
  static const auto outcome = load_cuda_module(find_module());
  return outcome;
}

} // namespace gpuactors
