#include "machine.hpp"

#include <gpuactors/base/version.hpp>
#include <gpuactors/device/discovery.hpp>

#include <caf/config.hpp>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/stubs/common.h>
#include <openssl/crypto.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

namespace gpuactors {

/// The commit; made when this is built (GpuactorsRevision.cmake).
extern const char* const revision;

} // namespace gpuactors

namespace gpuactors::bench {

namespace {

/// The first value of a file of lines "name : value".
std::string field(const char* file, std::string_view name) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name))
      if (const auto colon = line.find(':'); colon != std::string::npos)
        if (const auto begin = line.find_first_not_of(" \t", colon + 1); begin != std::string::npos)
          return line.substr(begin);
  return "unknown";
}

std::string system_name() {
  std::ifstream in{"/etc/os-release"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("PRETTY_NAME=")) {
      auto name = line.substr(line.find('=') + 1);
      std::erase(name, '"');
      return name;
    }
  return "unknown";
}

std::string kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : "unknown";
}

std::string memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto bytes = ::sysconf(_SC_PAGE_SIZE);
  return fmt::format("{:.1f} GiB", static_cast<double>(pages) * static_cast<double>(bytes) / (1U << 30));
}

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return "unknown";
#endif
}

/// What OpenBLAS says of itself; the library loads it, and so does this.
std::string openblas_version() {
  void* const library = ::dlopen("libopenblas.so.0", RTLD_NOW);
  void* const found = library != nullptr ? ::dlsym(library, "openblas_get_config") : nullptr;
  return found != nullptr ? reinterpret_cast<char* (*)()>(found)() : "none";
}

/// The newest CUDA that the driver knows: "13.0".
std::string cuda_version() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library != nullptr ? ::dlsym(library, "cuDriverGetVersion") : nullptr;
  int version = 0;
  if (found == nullptr || reinterpret_cast<int (*)(int*)>(found)(&version) != 0)
    return "none";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// "2 x NVIDIA H200", or none.
std::string gpus() {
  const auto specs = parse_device_specs("cuda");
  const auto devices = specs ? make_devices(*specs, discovery_options("bench")) : fail(specs.error());
  std::map<std::string, int> counts;
  if (devices)
    for (const auto& device : *devices)
      ++counts[device->info().name];
  std::vector<std::string> names;
  for (const auto& [name, count] : counts)
    names.push_back(fmt::format("{} x {}", count, name));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string protobuf_version() {
  return google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION);
}

} // namespace

Machine this_machine() {
  return {{"gpuactors", fmt::format("{}.{}, {}", GPUACTORS_VERSION_MAJOR, GPUACTORS_VERSION_MINOR, revision)},
          {"processor", field("/proc/cpuinfo", "model name")},
          {"hardware threads", std::to_string(std::thread::hardware_concurrency())},
          {"memory", memory()},
          {"system", system_name()},
          {"kernel", kernel()},
          {"compiler", compiler()},
          {"build", GPUACTORS_BUILD_TYPE},
          {"CAF", fmt::format("{}.{}.{}", CAF_MAJOR_VERSION, CAF_MINOR_VERSION, CAF_PATCH_VERSION)},
          {"Protobuf", protobuf_version()},
          {"OpenSSL", OpenSSL_version(OPENSSL_VERSION)},
          {"OpenBLAS", openblas_version()},
          {"CUDA driver", cuda_version()},
          {"GPUs", gpus()}};
}

} // namespace gpuactors::bench
