// Context: opening, closing and reclaiming.
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/detail/context_state.hpp>

#include <fmt/format.h>

namespace gpuactors {

Result<std::unique_ptr<Context>> Context::open(std::shared_ptr<Device> device, ContextOptions options) {
  if (device == nullptr)
    return fail(Errc::invalid_argument, "a context needs a device");
  if (options.share <= Share{} || options.share > Share::whole(1))
    return fail(Errc::invalid_argument, fmt::format("a context holds a share above 0 and at most 1 of a device, not {}",
                                                    to_string(options.share)));
  const auto device_bytes = device->info().memory_bytes;
  if (options.memory_bytes == 0)
    options.memory_bytes = memory_for_share(device_bytes, options.share);
  auto ground = detail::make_ground();
  ground->quota = std::make_shared<Quota>(std::move(options.holder), options.memory_bytes, std::move(options.parent));
  GPUACTORS_LET(backend, device->open({options.share, options.memory_bytes, ground->quota, options.copies_only}));
  ground->device = std::move(device);
  ground->backend = std::move(backend);
  auto state = std::make_shared<detail::ContextState>();
  state->ground = std::move(ground);
  state->runtime_source = options.runtime_source;
  GPUACTORS_LET(stream, state->take_stream());
  std::unique_ptr<Context> context{new Context(std::move(state))};
  context->stream_.emplace(Stream{context->state_, stream});
  return context;
}

Context::Context(std::shared_ptr<detail::ContextState> state)
  : state_(std::move(state)), quota_(state_->ground->quota) {
  state_->context = this;
}

Context::~Context() {
  if (state_->captured.native != nullptr)
    (void)state_->end_capture(state_->captured);
  (void)state_->reclaim();
  stream_.reset();
  // From here on, streams and buffers that outlive the context find no backend.
  state_->context = nullptr;
  state_->idle.clear();
  state_->ground.reset();
}

const DeviceInfo& Context::device() const noexcept {
  return state_->ground->device->info();
}

const std::shared_ptr<Device>& Context::device_handle() const noexcept {
  return state_->ground->device;
}

ContextGrant Context::granted() const {
  auto grant = state_->ground->backend->granted();
  grant.memory_bytes = quota_->limit();
  return grant;
}

Stream& Context::stream() noexcept {
  return *stream_;
}

Result<Stream> Context::make_stream() {
  GPUACTORS_LET(handle, state_->take_stream());
  return Stream{state_, handle};
}

Result<HostBuffer> Context::host_buffer(std::size_t bytes) {
  if (bytes == 0)
    return fail(Errc::invalid_argument, "a host buffer of 0 B was asked for; at least 1 B is needed");
  GPUACTORS_LET(memory, state_->ground->backend->host_memory(bytes));
  return HostBuffer{std::move(memory), bytes};
}

Result<RuntimeKernel> Context::compile(const KernelSource& source) {
  if (source.source.empty() || source.name.empty())
    return fail(Errc::invalid_argument, "a kernel that is compiled at run time needs a source and a name");
  if (!state_->runtime_source)
    return fail(Errc::unsupported,
                fmt::format("kernel {} is not compiled: this node takes no source (--no-jit)", source.name));
  return state_->ground->backend->compile(source);
}

const std::shared_ptr<Quota>& Context::quota() const noexcept {
  return quota_;
}

std::uint64_t Context::memory_used() const noexcept {
  return quota_->used();
}

std::uint64_t Context::memory_peak() const noexcept {
  return quota_->peak();
}

std::uint64_t Context::memory_limit() const noexcept {
  return quota_->limit();
}

bool Context::lost() const noexcept {
  return state_->ground->backend->lost();
}

Result<std::uint64_t> Context::reclaim() {
  return state_->reclaim();
}

} // namespace gpuactors
