// Loading kernel images into the driver.
#include <gpuactors/device/cuda/images.hpp>

#include <fmt/format.h>

namespace gpuactors::cuda {

Result<CUkernel> Images::find(const KernelInfo& kernel, int ordinal) {
  if (kernel.image == nullptr || kernel.image->size() == 0)
    return fail(Errc::launch_failed, fmt::format("kernel {} has no code for CUDA: it was built without nvcc; build it "
                                                 "where the CUDA Toolkit is installed",
                                                 kernel.name));
  std::lock_guard guard{mutex_};
  const std::pair key{kernel.image, kernel.name};
  if (const auto known = kernels_.find(key); known != kernels_.end())
    return known->second;
  GPUACTORS_LET(library, load(*kernel.image, kernel.name, ordinal));
  const auto entry = fmt::format("gpuactors_kernel_{}", kernel.name);
  CUkernel handle = nullptr;
  GPUACTORS_TRY(check(driver_, driver_.library_get_kernel(&handle, library, entry.c_str()), "cuLibraryGetKernel",
                      {ordinal, Errc::launch_failed, "kernel " + entry}));
  kernels_.emplace(key, handle);
  return handle;
}

Result<CUlibrary> Images::load(const KernelImage& image, const char* kernel, int ordinal) {
  if (const auto known = libraries_.find(&image); known != libraries_.end())
    return known->second;
  CUlibrary library = nullptr;
  GPUACTORS_TRY(check(driver_,
                      driver_.library_load_data(&library, image.begin, nullptr, nullptr, 0, nullptr, nullptr, 0),
                      "cuLibraryLoadData",
                      {ordinal, Errc::launch_failed, fmt::format("image of kernel {}, {} B", kernel, image.size())}));
  libraries_.emplace(&image, library);
  return library;
}

} // namespace gpuactors::cuda
