// BasicBackend and BasicDevice: without pinned or shared memory, handles for other libraries, or a compiler for kernels
// from source.
#include <gpuactors/device/backend.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors {

namespace {

Failure no_shared_memory() {
  return fail(Errc::unsupported, "only CUDA devices have memory that processes share");
}

Failure no_runtime_kernel(const std::string& name) {
  return fail(Errc::unsupported, fmt::format("kernel {} is CUDA C++, which runs on CUDA devices only", name));
}

} // namespace

// -- BasicBackend --------------------------------------------------------------------------------

Result<void> BasicBackend::fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(copy(host, source, bytes, CopyKind::device_to_host, stream));
  return synchronize(stream);
}

Result<void> BasicBackend::copy_from(Device& other, void*, const void*, std::size_t bytes, StreamHandle) {
  return fail(Errc::unsupported, fmt::format("{} B of {} go through the host", bytes, other.info().name));
}

Result<std::shared_ptr<void>> BasicBackend::host_memory(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const auto size = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = size < bytes ? nullptr : std::aligned_alloc(alignment, size);
  if (memory == nullptr)
    return fail(Errc::out_of_memory, fmt::format("the host has no {} B of memory", bytes));
  return std::shared_ptr<void>{memory, &std::free};
}

Result<void> BasicBackend::attach(std::uint64_t) {
  return no_shared_memory();
}

void BasicBackend::detach(std::uint64_t) noexcept {
  // nop
}

void BasicBackend::let_go(std::shared_ptr<SharedMemory>, std::span<const EventHandle>) noexcept {
  // `attach` always fails here, so no work uses shared memory.
}

void BasicBackend::settle() noexcept {
  // nop
}

Result<std::shared_ptr<void>> BasicBackend::make_current() {
  return fail(Errc::unsupported, "only CUDA devices have streams that libraries of others can use");
}

Result<RuntimeKernel> BasicBackend::compile(const KernelSource& source) {
  return no_runtime_kernel(source.name);
}

Result<void> BasicBackend::launch(const RuntimeKernel& kernel, const LaunchShape&, std::span<const KernelArgument>,
                                  StreamHandle) {
  return no_runtime_kernel(kernel.name());
}

// -- BasicDevice ---------------------------------------------------------------------------------

Device& BasicDevice::undecorated() noexcept {
  return *this;
}

bool BasicDevice::is_open() const {
  return false;
}

Result<std::size_t> BasicDevice::shared_footprint(std::size_t) {
  return no_shared_memory();
}

Result<std::shared_ptr<SharedMemory>> BasicDevice::make_shared_memory(std::size_t) {
  return no_shared_memory();
}

Result<std::shared_ptr<SharedMemory>> BasicDevice::open_shared_memory(int, std::size_t) {
  return no_shared_memory();
}

void BasicDevice::dispose(std::shared_ptr<void> what) {
  what.reset();
}

} // namespace gpuactors
