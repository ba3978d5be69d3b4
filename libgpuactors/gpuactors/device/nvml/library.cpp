// Loading the management library.
#include <gpuactors/device/nvml/library.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuactors::nvml {

Result<Library> load_library() {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(Errc::unsupported, "no NVIDIA management library on this machine (libnvidia-ml.so.1 was not found)");
  Library library;
  const char* missing = nullptr;
#define GPUACTORS_NVML_FIND(name, function, parameters)                                                                \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #function));
#define GPUACTORS_NVML_NEED(name, function, parameters)                                                                \
  GPUACTORS_NVML_FIND(name, function, parameters)                                                                      \
  if (library.name == nullptr)                                                                                         \
    missing = #function;
  GPUACTORS_NVML_REQUIRED(GPUACTORS_NVML_NEED)
  GPUACTORS_NVML_OPTIONAL(GPUACTORS_NVML_FIND)
#undef GPUACTORS_NVML_NEED
#undef GPUACTORS_NVML_FIND
  library.error_string = reinterpret_cast<decltype(library.error_string)>(dlsym(handle, "nvmlErrorString"));
  if (missing != nullptr)
    return fail(Errc::unsupported, fmt::format("libnvidia-ml.so.1 is too old: it has no {}", missing));
  if (const auto result = library.init(); result != success)
    return fail(Errc::unsupported, check(library, result, "nvmlInit").error().message());
  return library;
}

Result<void> check(const Library& library, int result, const char* function) {
  if (result == success)
    return {};
  const char* name = library.error_string != nullptr ? library.error_string(result) : nullptr;
  const auto code = result == gpu_is_lost     ? Errc::device_lost
                    : result == not_supported ? Errc::unsupported
                    : result == no_permission ? Errc::unsupported
                    : result == not_found     ? Errc::not_found
                                              : Errc::unavailable;
  return fail(code, fmt::format("{}: {} ({})", function, name != nullptr ? name : "failed", result));
}

} // namespace gpuactors::nvml
