// From source to the driver's handle.
#include <gpuactors/device/cuda/relaxed.hpp>
#include <gpuactors/device/cuda/runtime_kernels.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors::cuda {

Result<RuntimeKernel> RuntimeKernels::find(const KernelSource& source, int capability, int ordinal) {
  if (const char* wish = std::getenv("GPUACTORS_JIT"); wish != nullptr && std::string_view{wish} == "off")
    return fail(Errc::unsupported,
                fmt::format("kernel {} is not compiled: GPUACTORS_JIT=off is set in this process", source.name));
  GPUACTORS_LET(compiler, Compiler::get());
  GPUACTORS_LET(architecture, compiler->architecture_for(capability));
  GPUACTORS_LET(code, cache_.find(source, architecture, compiler->version(),
                                  [&] { return compiler->compile(source, architecture); }));
  auto kernel = known(code);
  if (!kernel) {
    // Behind a kernel that runs for long, what is on its way out would fill the device.
    if (unloading_ > most_)
      closer_.drain();
    GPUACTORS_LET(entry, load(source, *code, ordinal));
    kernel = keep(std::move(code), std::move(entry));
  }
  if (auto* const oldest = take_oldest())
    unload(oldest);
  return std::move(*kernel);
}

std::optional<RuntimeKernel> RuntimeKernels::known(const Code& code) {
  const std::lock_guard guard{mutex_};
  const auto found = loaded_.find(code);
  if (found == loaded_.end())
    return std::nullopt;
  found->second.turn = ++turn_;
  return RuntimeKernel{found->second.kernel};
}

RuntimeKernel RuntimeKernels::keep(Code code, Entry entry) {
  auto* const library = entry.library;
  RuntimeKernel kernel;
  {
    const std::lock_guard guard{mutex_};
    const auto [kept, is_ours] = loaded_.emplace(std::move(code), std::move(entry));
    kept->second.turn = ++turn_;
    kernel = RuntimeKernel{kept->second.kernel};
    if (is_ours)
      return kernel;
  }
  unload(library);
  return kernel;
}

Result<RuntimeKernels::Entry> RuntimeKernels::load(const KernelSource& source, const KernelCode& code, int ordinal) {
  const CallSite site{ordinal, Errc::launch_failed, "kernel " + source.name};
  Entry entry;
  GPUACTORS_TRY(check(
      driver_, driver_.library_load_data(&entry.library, code.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData", site));
  CUkernel kernel = nullptr;
  if (auto outcome = check(driver_, driver_.library_get_kernel(&kernel, entry.library, code.entry.c_str()),
                           "cuLibraryGetKernel", site);
      !outcome) {
    (void)driver_.library_unload(entry.library);
    return fail(outcome.error());
  }
  RuntimeKernel::Loaded loaded{kernel, source.name, arguments_of(kernel), ++loads_};
  entry.kernel = std::make_shared<const RuntimeKernel::Loaded>(std::move(loaded));
  return entry;
}

std::optional<std::vector<std::size_t>> RuntimeKernels::arguments_of(CUkernel kernel) const {
  if (driver_.kernel_get_param_info == nullptr)
    return std::nullopt;
  // More than any chip takes.
  constexpr std::size_t most = 8'192;
  std::vector<std::size_t> sizes;
  while (sizes.size() < most) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const auto result = driver_.kernel_get_param_info(kernel, sizes.size(), &offset, &size);
    // So it says that there are no more.
    if (result == CUDA_ERROR_INVALID_VALUE)
      return sizes;
    if (result != CUDA_SUCCESS)
      return std::nullopt;
    sizes.push_back(size);
  }
  return std::nullopt;
}

void RuntimeKernels::unload(CUlibrary library) {
  ++unloading_;
  closer_.add(std::shared_ptr<void>{library, [this](void* gone) {
                                      const Relaxed relaxed{driver_};
                                      (void)driver_.library_unload(static_cast<CUlibrary>(gone));
                                      --unloading_;
                                    }});
}

CUlibrary RuntimeKernels::take_oldest() {
  const std::lock_guard guard{mutex_};
  if (loaded_.size() <= most_)
    return nullptr;
  auto oldest = loaded_.end();
  for (auto entry = loaded_.begin(); entry != loaded_.end(); ++entry)
    if (entry->second.kernel.use_count() == 1 && (oldest == loaded_.end() || entry->second.turn < oldest->second.turn))
      oldest = entry;
  if (oldest == loaded_.end())
    return nullptr;
  auto* const library = oldest->second.library;
  loaded_.erase(oldest);
  return library;
}

} // namespace gpuactors::cuda
