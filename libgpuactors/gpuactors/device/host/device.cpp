// The host device: its total memory and threads, and opening a part of it.
#include <gpuactors/device/host/backend.hpp>
#include <gpuactors/device/host/device.hpp>
#include <gpuactors/device/host/pool.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::host {

int threads_for_share(Share share, int units) noexcept {
  return static_cast<int>(std::max<std::int64_t>(1, share.units() * units / Share::one));
}

HostDevice::HostDevice(DeviceInfo info) : info_(std::move(info)) {
  info_.units = std::max(1, info_.units);
  quota_ = std::make_shared<Quota>(fmt::format("host device {}", info_.index), info_.memory_bytes);
  pool_ = std::make_unique<Pool>(info_.units);
}

HostDevice::~HostDevice() = default;

Result<DeviceMemory> HostDevice::memory() {
  const auto used = std::min(quota_->used(), info_.memory_bytes);
  return DeviceMemory{info_.memory_bytes - used, info_.memory_bytes};
}

Result<std::unique_ptr<Backend>> HostDevice::open(const BackendOptions& options) {
  if (options.share <= Share{} || options.share > Share::whole(1))
    return fail(Errc::invalid_argument,
                fmt::format("a share of a device is above 0 and at most 1, not {}", to_string(options.share)));
  auto limit = options.memory_bytes == 0 ? info_.memory_bytes : options.memory_bytes;
  // The limit is rounded up to whole blocks, so that a quota of any size can be filled to its last byte.
  limit = round_to_block(limit);
  auto quota = std::make_shared<Quota>(fmt::format("lease on host device {}", info_.index), limit, quota_);
  return std::make_unique<HostBackend>(options, *pool_, std::move(quota),
                                       threads_for_share(options.share, info_.units));
}

} // namespace gpuactors::host
