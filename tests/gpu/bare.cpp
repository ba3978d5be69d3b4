// The bare driver, and small things that every measurement needs.
#include <gpuactors/device/cuda_module.hpp>

#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>

namespace gpuactors::gpu {

double quantile(std::vector<double> values, double part) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part)];
}

std::uint64_t free_bytes(Lab& lab) {
  return must(lab.device->memory()).free_bytes;
}

BareContext::BareContext(Lab& lab) : driver_(lab.driver) {
  must(driver_.device_get(&device_, lab.device->info().ordinal));
  CUcontext context = nullptr;
  must(driver_.primary_ctx_retain(&context, device_));
  must(driver_.ctx_push_current(context));
}

BareContext::~BareContext() {
  CUcontext context = nullptr;
  (void)driver_.ctx_pop_current(&context);
  (void)driver_.primary_ctx_release(device_);
}

BareKernel::BareKernel(Lab& lab) {
  const auto& image = *nothing.info.image;
  if (image.size() == 0)
    throw Trouble{"built without nvcc"};
  must(lab.driver.library_load_data(&library, image.begin, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  must(lab.driver.library_get_kernel(&kernel, library, "gpuactors_kernel_nothing"));
  function = reinterpret_cast<CUfunction>(kernel);
}

void BareKernel::launch(const cuda::Driver& driver, CUstream stream) const {
  std::uint64_t n = 1;
  KernelPack<> pack;
  void* arguments[] = {&n, &pack};
  must(driver.launch_kernel(function, 1, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
}

CUdevResource one_group(const cuda::Driver& driver, CUdevice device, unsigned sms) {
  CUdevResource all{};
  CUdevResource group{};
  unsigned count = 1;
  must(driver.device_get_dev_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  must(driver.dev_sm_resource_split(&group, &count, &all, nullptr, 0, std::max(sms, cuda::least_group(all))));
  return group;
}

CUgreenCtx make_green(const cuda::Driver& driver, CUdevice device, CUdevResource group) {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx context = nullptr;
  must(driver.dev_resource_generate_desc(&description, &group, 1));
  must(driver.green_ctx_create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  return context;
}

Result<std::shared_ptr<Device>> find_device() {
  GPUACTORS_LET(module, load_cuda_module());
  GPUACTORS_LET(devices, module->devices());
  if (devices.empty())
    return fail(Errc::unsupported, "no CUDA device is visible");
  show_kernels_to_fake_driver();
  return module->device(devices[0]);
}

} // namespace gpuactors::gpu
