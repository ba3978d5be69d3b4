#include <gpuactors/agent/core/mps.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

constexpr const char* percentage_variable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
constexpr const char* memory_variable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

} // namespace

std::map<std::string, std::optional<std::string>> mps_environment(const v1::Lease& lease,
                                                                  const std::vector<v1::Device>& devices) {
  std::map<std::string, std::optional<std::string>> result{
      {percentage_variable, std::nullopt}, {memory_variable, std::nullopt}, {queues_variable, std::nullopt}};
  std::string memory;
  // The memory limits name CUDA devices by their ordinal in the process; devices of other kinds have no ordinal.
  int ordinal = 0;
  for (const auto& device : devices) {
    if (device.kind() != "cuda")
      continue;
    const auto granted = std::find_if(lease.devices().begin(), lease.devices().end(),
                                      [&](const v1::DeviceGrant& grant) { return grant.index() == device.index(); });
    const auto number = ordinal++;
    if (granted == lease.devices().end() || Share{granted->share_units()} >= Share::whole(1))
      continue;
    constexpr auto units_of_a_percent = Share::one / 100;
    // At most one device of a lease is shared, so one percentage is enough.
    result[percentage_variable] =
        std::to_string(std::max<std::int64_t>(1, granted->share_units() / units_of_a_percent));
    const auto limit = (granted->memory_bytes() + limits::mps_headroom_bytes + mebibyte - 1) / mebibyte;
    memory += fmt::format("{}{}={}M", memory.empty() ? "" : ",", number, limit);
  }
  if (!memory.empty())
    result[memory_variable] = memory;
  return result;
}

} // namespace gpuactors
