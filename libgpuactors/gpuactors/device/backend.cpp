// Default implementations for devices and backends without pinned or shared memory, graphs, handles for other
// libraries, or a compiler for run-time kernels.
#include <gpuactors/device/backend.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors {

namespace {

Failure no_shared_memory() {
  return fail(Errc::unsupported, "only CUDA devices have memory that processes share");
}

Failure no_capture() {
  return fail(Errc::unsupported, "this device captures no graphs");
}

} // namespace

Result<std::shared_ptr<void>> Backend::host_memory(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const auto size = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = size < bytes ? nullptr : std::aligned_alloc(alignment, size);
  if (memory == nullptr)
    return fail(Errc::out_of_memory, "the host has no " + std::to_string(bytes) + " B of memory");
  return std::shared_ptr<void>{memory, &std::free};
}

Result<void> Backend::fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(copy(host, source, bytes, CopyKind::device_to_host, stream));
  return synchronize(stream);
}

Result<void> Backend::copy_from(Device& other, void*, const void*, std::size_t bytes, StreamHandle) {
  return fail(Errc::unsupported, fmt::format("{} B of {} go through the host", bytes, other.info().name));
}

Result<void> Backend::attach(std::uint64_t) {
  return no_shared_memory();
}

void Backend::detach(std::uint64_t) noexcept {
  // nop
}

void Backend::let_go(std::shared_ptr<SharedMemory>, std::span<const EventHandle>) noexcept {
  // `attach` always fails here, so no work uses shared memory.
}

void Backend::settle() noexcept {
  // nop
}

Result<std::size_t> Device::shared_footprint(std::size_t) {
  return no_shared_memory();
}

void Device::dispose(std::shared_ptr<void> what) {
  what.reset();
}

Result<std::shared_ptr<SharedMemory>> Device::make_shared_memory(std::size_t) {
  return no_shared_memory();
}

Result<std::shared_ptr<SharedMemory>> Device::open_shared_memory(int, std::size_t) {
  return no_shared_memory();
}

Result<std::shared_ptr<void>> Backend::make_current() {
  return fail(Errc::unsupported, "only CUDA devices have streams that libraries of others can use");
}

Result<void> Backend::begin_capture(StreamHandle) {
  return no_capture();
}

Result<std::shared_ptr<BackendGraph>> Backend::end_capture(StreamHandle) {
  return no_capture();
}

Result<void> Backend::launch(const std::shared_ptr<BackendGraph>&, StreamHandle) {
  return no_capture();
}

Result<RuntimeKernel> Backend::compile(const KernelSource& source) {
  return fail(Errc::unsupported, "kernel " + source.name + " is CUDA C++, which runs on CUDA devices only");
}

Result<void> Backend::launch(const RuntimeKernel& kernel, const LaunchShape&, std::span<const KernelArgument>,
                             StreamHandle) {
  return fail(Errc::unsupported, "kernel " + kernel.name() + " is CUDA C++, which runs on CUDA devices only");
}

} // namespace gpuactors
