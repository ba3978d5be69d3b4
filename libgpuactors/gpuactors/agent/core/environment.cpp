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

/// Prefixes of reserved names: variables that configure the library, the driver and MPS, that select the devices
/// visible in containers, or that make a program load files.
constexpr std::array<std::string_view, 9> reserved = {"GPUACTORS_",     "LD_",     "CUDA_MPS_", "CUDA_DEVICE_ORDER",
                                                      "CUDA_INJECTION", "NVIDIA_", "OPENSSL_",  "GCONV_PATH",
                                                      "SSL_CERT_"};

bool is_reserved(std::string_view name) {
  const auto& kinds = accelerator_kinds();
  return std::any_of(reserved.begin(), reserved.end(), [&](auto prefix) { return name.starts_with(prefix); })
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
