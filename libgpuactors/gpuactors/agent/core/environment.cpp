#include <gpuactors/agent/core/environment.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace gpuactors {

namespace {

// Whoever asks for a process runs a type of the node's program in it, as the node's user. No variable may make that
// process load, write or send what the type does not.

/// Prefixes of reserved names: variables that configure the library, the driver and MPS, that select the devices
/// visible in containers, or by which the loader, libraries and interpreters find files and peers. The node's headers
/// for its collector of traces are secrets: the address goes with them.
constexpr auto reserved_prefixes = std::to_array<std::string_view>(
    {"GPUACTORS_",  "LD_",          "CUDA_MPS_",      "CUDA_DEVICE_ORDER", "CUDA_INJECTION", "NVIDIA_",
     "OPENSSL_",    "SSL",          "OTEL_",          "GCONV_PATH",        "GETCONF_DIR",    "RESOLV_",
     "NIS_PATH",    "GRPC_",        "CURL_",          "UCX_LOG_FILE",      "MALLOC_",        "PYTHON",
     "XDG_",        "BASH_",        "GLIBC_TUNABLES", "KINETO_",           "NVTX_",          "OMP_TOOL",
     "IBV_DRIVERS", "RDMAV_DRIVERS"});

/// Reserved names: where programs look for files, and keep them.
constexpr auto reserved_names =
    std::to_array<std::string_view>({"HOME", "PATH", "TMPDIR", "TMP", "TEMP", "IFS", "ENV", "TZDIR", "NLSPATH",
                                     "LOCPATH", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS"});

/// Requests set these libraries' variables to tune them, but not those that have one of the words in their names: they
/// name files to load, or to write (NCCL_DEBUG_FILE, NCCL_NET_PLUGIN, CUDA_CACHE_PATH, CUBLAS_LOGDEST_DBG).
constexpr auto libraries =
    std::to_array<std::string_view>({"NCCL_", "CUDA_", "CUBLAS", "CUDNN_", "CUFILE_", "CUFFT", "CUSOLVER", "CUSPARSE",
                                     "CUTENSOR", "TORCH", "PYTORCH_", "UCX_", "FI_", "HWLOC_", "MKL_", "NVSHMEM_"});
constexpr auto words_for_files = std::to_array<std::string_view>({"FILE", "PATH", "PLUGIN", "DUMP", "DEST"});

/// Programs read the addresses of proxies in capital letters and in small ones.
bool is_proxy(std::string_view name) {
  constexpr std::string_view end = "_PROXY";
  return name.size() >= end.size()
         && std::equal(end.begin(), end.end(), name.end() - end.size(), [](char wanted, char c) {
              return wanted == static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
            });
}

bool is_reserved(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  const auto& kinds = accelerator_kinds();
  return std::any_of(reserved_prefixes.begin(), reserved_prefixes.end(), begins)
         || std::find(reserved_names.begin(), reserved_names.end(), name) != reserved_names.end()
         || (std::any_of(libraries.begin(), libraries.end(), begins)
             && (name.ends_with("_DIR") || std::any_of(words_for_files.begin(), words_for_files.end(), has)))
         || is_proxy(name)
         || std::any_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return name == kind.variable; });
}

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

template <class Environment>
Result<void> check_variables(const Environment& environment) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : environment) {
    if (!is_name(name))
      return fail(
          Errc::invalid_argument,
          fmt::format("environment: \"{}\" is no name of a variable: letters, digits and _ are expected, and no "
                      "digit in front",
                      name));
    if (is_reserved(name))
      return fail(
          Errc::invalid_argument,
          fmt::format("environment: {} is set by the node, or by whoever starts it, and not by requests", name));
    if (value.find('\0') != std::string::npos)
      return fail(Errc::invalid_argument, fmt::format("environment: the value of {} has a zero byte in it", name));
    bytes += name.size() + value.size();
  }
  if (bytes > limits::environment_bytes)
    return fail(Errc::invalid_argument, fmt::format("environment: names and values have {} bytes together, at most {} "
                                                    "are allowed",
                                                    bytes, limits::environment_bytes));
  return {};
}

} // namespace

Result<void> check_environment(const std::map<std::string, std::string>& environment) {
  return check_variables(environment);
}

Result<void> check_environment(const google::protobuf::Map<std::string, std::string>& environment) {
  return check_variables(environment);
}

} // namespace gpuactors
