#include "support.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace gpuactors::builtin {

namespace {

constexpr auto most_bytes = std::numeric_limits<std::int64_t>::max();

} // namespace

Result<std::int64_t> check_order(std::int64_t n, std::size_t element_bytes) {
  const auto most =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(most_bytes) / static_cast<double>(element_bytes)));
  if (n < 1 || n > most)
    return fail(Errc::invalid_argument,
                fmt::format("n is {}: rows and columns of a matrix, 1 to {}, are expected", n, most));
  return n;
}

Result<std::size_t> check_count(std::string_view field, std::int64_t count, std::size_t unit_bytes) {
  const auto most = most_bytes / static_cast<std::int64_t>(unit_bytes);
  if (count < 1 || count > most)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: 1 to {} are expected", field, count, most));
  return static_cast<std::size_t>(count);
}

Result<void> check_device(std::string_view what, std::size_t gpus) {
  if (gpus == 0)
    return fail(Errc::invalid_argument,
                fmt::format("{} computes on a device and was given none: ask for one, whole (gpus 1), in part (gpus "
                            "0.5) or by its memory",
                            what));
  return {};
}

v1::DeviceShare describe(const LeaseInfo& lease, Context& gpu, std::size_t i) {
  const auto& info = gpu.device();
  const auto& granted = lease.devices[i];
  v1::DeviceShare result;
  result.set_index(granted.index);
  result.set_share(granted.share.to_double());
  result.set_memory_bytes(gpu.memory_limit());
  result.set_kind(std::string{to_string(info.kind)});
  result.set_name(info.name);
  result.set_accelerator_type(info.accelerator_type);
  return result;
}

} // namespace gpuactors::builtin
