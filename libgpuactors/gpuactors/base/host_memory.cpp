#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

namespace gpuactors {

std::string amount_of_resource(std::string_view resource, Share amount) {
  if (resource != host_memory_resource || amount < Share{})
    return to_string(amount);
  return format_bytes(static_cast<std::uint64_t>(amount.units()));
}

Result<void> check_not_host_memory(std::string_view resource, std::string_view instead) {
  if (resource == host_memory_resource)
    return fail(Errc::invalid_argument,
                fmt::format("\"{}\" is not a custom resource: use {} instead", resource, instead));
  return {};
}

Result<void> check_host_memory(std::string_view what, std::uint64_t bytes) {
  if (bytes > limits::host_memory_bytes)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: at most {} is allowed", what, format_bytes(bytes),
                                                    format_bytes(limits::host_memory_bytes)));
  return {};
}

} // namespace gpuactors
