// Shared memory: a physical block, its descriptor, and where it is mapped.
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/device/cuda/pool.hpp>
#include <gpuactors/device/cuda/shared_memory.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdint>

namespace gpuactors::cuda {

namespace {

CUmemAllocationProp properties(const Primary& primary) {
  // Zeroed: what is reserved must be.
  CUmemAllocationProp result{};
  result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  result.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  result.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  result.location.id = primary.ordinal();
  return result;
}

/// A mapping of a physical block, and perhaps its descriptor. The driver counts who has the block: each mapping and
/// each descriptor, in all processes.
class Mapping final : public SharedMemory {
public:
  Mapping(std::shared_ptr<Primary> primary, std::size_t size) : primary_(std::move(primary)), size_(size) {
    // nop
  }

  ~Mapping() override {
    const Current current{*primary_};
    const auto& driver = primary_->driver();
    if (mapped_)
      (void)driver.mem_unmap(address_, size_);
    if (address_ != 0)
      (void)driver.mem_address_free(address_, size_);
  }

  /// Maps `block`, and lets go of the handle in any case: the mapping holds the block.
  Result<void> map(CUmemGenericAllocationHandle block, CUmemAccess_flags access) {
    const auto& driver = primary_->driver();
    auto outcome = map_to(block);
    if (outcome)
      outcome = allow(access);
    (void)driver.mem_release(block);
    return outcome;
  }

  Result<void> describe(CUmemGenericAllocationHandle block) {
    int descriptor = -1;
    GPUACTORS_TRY(
        primary_->check(primary_->driver().mem_export(&descriptor, block, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                        "cuMemExportToShareableHandle", Errc::unsupported));
    descriptor_ = gpuactors::detail::Descriptor{descriptor};
    // A child that a program starts by itself would keep the memory.
    (void)::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return {};
  }

  [[nodiscard]] void* data() const noexcept override {
    return reinterpret_cast<void*>(address_); // NOLINT(performance-no-int-to-ptr): it is how the driver spells pointers
  }

  [[nodiscard]] std::size_t footprint() const noexcept override {
    return size_;
  }

  [[nodiscard]] int descriptor() const noexcept override {
    return descriptor_.get();
  }

private:
  Result<void> map_to(CUmemGenericAllocationHandle block) {
    const auto& driver = primary_->driver();
    GPUACTORS_TRY(primary_->check(driver.mem_address_reserve(&address_, size_, 0, 0, 0), "cuMemAddressReserve",
                                  Errc::unsupported, fmt::format("asked {} B", size_)));
    GPUACTORS_TRY(primary_->check(driver.mem_map(address_, size_, 0, block, 0), "cuMemMap", Errc::unsupported));
    mapped_ = true;
    return {};
  }

  Result<void> allow(CUmemAccess_flags access) {
    CUmemAccessDesc description{};
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = primary_->ordinal();
    description.flags = access;
    const auto& driver = primary_->driver();
    auto result = driver.mem_set_access(address_, size_, &description, 1);
    if (result != CUDA_SUCCESS && access == CU_MEM_ACCESS_FLAGS_PROT_READ) {
      // Not every driver can keep a reader from writing.
      description.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = driver.mem_set_access(address_, size_, &description, 1);
    }
    return primary_->check(result, "cuMemSetAccess", Errc::unsupported);
  }

  std::shared_ptr<Primary> primary_;
  std::size_t size_;
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
  gpuactors::detail::Descriptor descriptor_;
};

} // namespace

Result<std::size_t> shared_footprint(Primary& primary, std::size_t bytes) {
  GPUACTORS_TRY(primary.alive());
  const auto& driver = primary.driver();
  for (const auto needed : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int has = 0;
    GPUACTORS_TRY(primary.check(driver.device_get_attribute(&has, needed, primary.device()), "cuDeviceGetAttribute"));
    if (has == 0)
      return fail(Errc::unsupported,
                  fmt::format("device {} has no memory that processes share by descriptors", primary.ordinal()));
  }
  const auto wanted = properties(primary);
  std::size_t unit = 0;
  GPUACTORS_TRY(primary.check(driver.mem_get_allocation_granularity(&unit, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                              "cuMemGetAllocationGranularity", Errc::unsupported));
  const auto size = round_up(bytes, unit);
  if (bytes == 0 || size < bytes)
    return fail(Errc::invalid_argument, fmt::format("shared memory of {} B cannot be had", bytes));
  return size;
}

Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::shared_ptr<Primary> primary, std::size_t bytes) {
  GPUACTORS_LET(size, shared_footprint(*primary, bytes));
  const auto wanted = properties(*primary);
  CUmemGenericAllocationHandle block = 0;
  GPUACTORS_TRY(primary->check(primary->driver().mem_create(&block, size, &wanted, 0), "cuMemCreate",
                               Errc::out_of_memory, fmt::format("asked {} B", size)));
  auto result = std::make_shared<Mapping>(std::move(primary), size);
  auto described = result->describe(block);
  // Maps in any case, which lets go of the handle.
  GPUACTORS_TRY(result->map(block, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  if (!described)
    return fail(described.error());
  return result;
}

namespace {

Result<std::shared_ptr<SharedMemory>> open(std::shared_ptr<Primary> primary, int descriptor, std::size_t bytes) {
  GPUACTORS_LET(size, shared_footprint(*primary, bytes));
  CUmemGenericAllocationHandle block = 0;
  // A descriptor travels as a pointer; the driver makes a handle of its own.
  auto* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)); // NOLINT
  const auto imported = primary->driver().mem_import(&block, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (imported != CUDA_SUCCESS) {
    // The memory is another process's: whether this one has lost its context, that has to be asked.
    GPUACTORS_TRY(primary->probe());
    const auto why = check(primary->driver(), imported, "cuMemImportFromShareableHandle", {primary->ordinal()});
    return fail(Errc::unsupported, why.error().message());
  }
  auto result = std::make_shared<Mapping>(std::move(primary), size);
  GPUACTORS_TRY(result->map(block, CU_MEM_ACCESS_FLAGS_PROT_READ));
  return result;
}

} // namespace

Result<std::shared_ptr<SharedMemory>> open_shared_memory(std::shared_ptr<Primary> primary, int descriptor,
                                                         std::size_t bytes) {
  auto result = open(std::move(primary), descriptor, bytes);
  // In a container that lacks the maker's device the driver speaks of an invalid device, which is not this one.
  if (!result && result.error().code() != Errc::context_lost)
    return fail(Errc::unsupported, result.error().message());
  return result;
}

} // namespace gpuactors::cuda
