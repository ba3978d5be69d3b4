// Finds and loads libgpuactors_cuda.so.
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/mps.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace gpuactors {

namespace {

constexpr auto file_name = "libgpuactors_cuda.so";

constexpr const char* queues_variable = "CUDA_DEVICE_MAX_CONNECTIONS";
/// For this process and those that inherit its environment: the number there is this library's.
constexpr const char* chosen_variable = "GPUACTORS_QUEUES";

/// Requests 32 hardware queues for each context, the maximum; the driver's default is 8. Streams that share a queue
/// wait for each other, even if their SMs differ. Not under MPS: there, the queues come out of what all processes
/// share, so that more of them would keep processes out.
///
/// Runs when the library is loaded, usually before `main`, because changing the environment while other threads read it
/// is undefined. The driver reads the variable when it starts.
__attribute__((constructor)) void ask_for_hardware_queues() {
  if (std::getenv(queues_variable) != nullptr || mps_runs(mps_folder()))
    return;
  for (const auto* variable : {queues_variable, chosen_variable})
    (void)::setenv(variable, "32", 1);
}

/// Returns the path of the module: beside the file that contains this code, in the `lib` folder next to that folder, or
/// the bare name for the loader to find.
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

bool chose_hardware_queues() {
  const char* number = std::getenv(queues_variable);
  const char* chosen = std::getenv(chosen_variable);
  return number != nullptr && chosen != nullptr && std::string_view{number} == chosen;
}

Result<CudaModule*> load_cuda_module(const std::string& path) {
  // The module is never unloaded, because backends that are still open run its code.
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
