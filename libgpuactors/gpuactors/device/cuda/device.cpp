// CUDA devices: describing and opening them.
#include <gpuactors/device/cuda/device.hpp>
#include <gpuactors/device/cuda/shared_memory.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

#include <array>

namespace gpuactors::cuda {

namespace {

std::string format_uuid(const CUuuid& uuid, bool mig) {
  std::string text = mig ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

} // namespace

Result<DeviceInfo> describe(const Driver& driver, int ordinal) {
  const CallSite site{ordinal, Errc::device_lost, {}};
  CUdevice device = 0;
  GPUACTORS_TRY(check(driver, driver.device_get(&device, ordinal), "cuDeviceGet", site));
  std::array<char, 256> name{};
  GPUACTORS_TRY(check(driver, driver.device_get_name(name.data(), static_cast<int>(name.size() - 1), device),
                      "cuDeviceGetName", site));
  CUuuid uuid{};
  GPUACTORS_TRY(check(driver, driver.device_get_uuid(&uuid, device), "cuDeviceGetUuid", site));
  std::size_t total = 0;
  GPUACTORS_TRY(check(driver, driver.device_total_mem(&total, device), "cuDeviceTotalMem", site));
  int sms = 0;
  GPUACTORS_TRY(check(driver, driver.device_get_attribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
                      "cuDeviceGetAttribute", site));
  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.index = ordinal;
  info.ordinal = ordinal;
  info.name = name.data();
  info.accelerator_type = accelerator_type_of(info.name);
  info.uuid = format_uuid(uuid, info.name.find(" MIG ") != std::string::npos);
  info.memory_bytes = leasable_memory(total);
  info.units = sms;
  return info;
}

Result<Shared> CudaDevice::enter() {
  std::lock_guard guard{mutex_};
  if (primary_ == nullptr) {
    GPUACTORS_LET(primary, Primary::retain(runtime_.driver, info_.ordinal));
    primary_ = std::move(primary);
    runtime_.images.forget_primary(info_.ordinal);
    poller_ = std::make_shared<Poller>(primary_);
    pinned_ = std::make_shared<PinnedPool>(primary_);
    products_ = std::make_shared<Products>(runtime_.cublas, primary_);
    open_ = true;
  }
  if (split_ == nullptr) {
    const Current current{*primary_};
    GPUACTORS_LET(split, runtime_.splits.of(primary_));
    split_ = std::move(split);
  }
  return Shared{
      primary_,   poller_, split_, pinned_, products_, closer_, pools_, runtime_.images, runtime_.runtime_kernels,
      info_.units};
}

Result<std::shared_ptr<Primary>> CudaDevice::primary() {
  GPUACTORS_LET(shared, enter());
  return std::move(shared.primary);
}

Result<std::size_t> CudaDevice::shared_footprint(std::size_t bytes) {
  GPUACTORS_LET(context, primary());
  const Current current{*context};
  return cuda::shared_footprint(*context, bytes);
}

Result<std::shared_ptr<SharedMemory>> CudaDevice::make_shared_memory(std::size_t bytes) {
  GPUACTORS_LET(context, primary());
  const Current current{*context};
  auto made = cuda::make_shared_memory(context, bytes);
  if (made || made.error().code() != Errc::out_of_memory)
    return made;
  // As for an allocation that the quota allows.
  return pools_->try_again([&] { return cuda::make_shared_memory(context, bytes); });
}

Result<std::shared_ptr<SharedMemory>> CudaDevice::open_shared_memory(int descriptor, std::size_t bytes) {
  GPUACTORS_LET(context, primary());
  const Current current{*context};
  return cuda::open_shared_memory(context, descriptor, bytes);
}

Result<DeviceMemory> CudaDevice::memory() {
  GPUACTORS_LET(shared, enter());
  const Current current{*shared.primary};
  std::size_t free = 0;
  std::size_t total = 0;
  GPUACTORS_TRY(shared.primary->check(runtime_.driver.mem_get_info(&free, &total), "cuMemGetInfo"));
  return DeviceMemory{free, total};
}

Result<std::unique_ptr<Backend>> CudaDevice::open(const BackendOptions& options) {
  if (options.share <= Share{} || options.share > Share::whole(1))
    return fail(Errc::invalid_argument,
                fmt::format("a share of a device is above 0 and at most 1, not {}", to_string(options.share)));
  GPUACTORS_LET(shared, enter());
  auto chosen = options;
  if (chosen.memory_bytes == 0)
    chosen.memory_bytes = info_.memory_bytes;
  auto backend = std::make_unique<CudaBackend>(std::move(shared), std::move(chosen));
  GPUACTORS_TRY(backend->open());
  return backend;
}

} // namespace gpuactors::cuda
