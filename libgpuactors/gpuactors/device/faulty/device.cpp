// The decorators of Device and Backend that ask a plan before each call.
#include <gpuactors/device/faulty.hpp>

namespace gpuactors::faulty {

namespace {

class FaultyBackend final : public Backend {
public:
  FaultyBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Plan> plan)
    : inner_(std::move(inner)), plan_(std::move(plan)) {
    plan_->count(&Held::backends, 1);
  }

  ~FaultyBackend() override {
    // The inner backend ends before it is counted as gone, because callbacks may come until then.
    inner_.reset();
    plan_->count(&Held::backends, -1);
  }

  [[nodiscard]] ContextGrant granted() const override {
    return inner_->granted();
  }

  [[nodiscard]] bool lost() const noexcept override {
    return plan_->context_lost() || inner_->lost();
  }

  [[nodiscard]] bool is_served_here() const noexcept override {
    return inner_->is_served_here();
  }

  Result<StreamHandle> make_stream() override {
    GPUACTORS_TRY(plan_->enter(Call::make_stream));
    return counted(inner_->make_stream(), &Held::streams);
  }

  void destroy_stream(StreamHandle stream) noexcept override {
    inner_->destroy_stream(stream);
    plan_->count(&Held::streams, -1);
  }

  Result<void> synchronize(StreamHandle stream) override {
    // Waits for the work even if this call is to fail, because later steps may rely on that.
    auto outcome = inner_->synchronize(stream);
    GPUACTORS_TRY(plan_->enter(Call::synchronize));
    return outcome;
  }

  Result<EventHandle> make_event() override {
    GPUACTORS_TRY(plan_->enter(Call::make_event));
    return counted(inner_->make_event(), &Held::events);
  }

  void destroy_event(EventHandle event) noexcept override {
    inner_->destroy_event(event);
    plan_->count(&Held::events, -1);
  }

  Result<void> record(EventHandle event, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::record));
    return inner_->record(event, stream);
  }

  Result<void> wait(StreamHandle stream, EventHandle event) override {
    GPUACTORS_TRY(plan_->enter(Call::wait));
    return inner_->wait(stream, event);
  }

  Result<bool> query(EventHandle event) override {
    GPUACTORS_TRY(plan_->enter(Call::query));
    return inner_->query(event);
  }

  Result<void> notify(StreamHandle stream, std::function<void(Result<void>)> callback) override {
    GPUACTORS_TRY(plan_->enter(Call::notify));
    return inner_->notify(stream, [plan = plan_, callback = std::move(callback)](Result<void> result) {
      if (plan->context_lost())
        result = fail(Errc::context_lost, "the context is lost (injected)");
      callback(std::move(result));
    });
  }

  Result<void*> allocate(std::size_t bytes, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::allocate));
    return counted(inner_->allocate(bytes, stream), &Held::allocations);
  }

  void free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept override {
    inner_->free(pointer, stream, readers);
    plan_->count(&Held::allocations, -1);
  }

  Result<void> copy(void* target, const void* source, std::size_t bytes, CopyKind kind, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::copy));
    return inner_->copy(target, source, bytes, kind, stream);
  }

  Result<void> fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::copy));
    auto outcome = inner_->fetch(host, source, bytes, stream);
    // As in `synchronize`.
    GPUACTORS_TRY(plan_->enter(Call::synchronize));
    return outcome;
  }

  Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                         StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::copy_from));
    return inner_->copy_from(other, target, source, bytes, stream);
  }

  Result<void> fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::fill));
    return inner_->fill(target, value, bytes, stream);
  }

  [[nodiscard]] std::size_t footprint(std::size_t bytes) const noexcept override {
    return inner_->footprint(bytes);
  }

  Result<std::shared_ptr<void>> host_memory(std::size_t bytes) override {
    GPUACTORS_TRY(plan_->enter(Call::host_memory));
    return inner_->host_memory(bytes);
  }

  Result<void> attach(std::uint64_t footprint) override {
    GPUACTORS_TRY(plan_->enter(Call::attach));
    GPUACTORS_TRY(inner_->attach(footprint));
    plan_->count(&Held::attachments, 1);
    return {};
  }

  void detach(std::uint64_t footprint) noexcept override {
    inner_->detach(footprint);
    plan_->count(&Held::attachments, -1);
  }

  void let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept override {
    inner_->let_go(std::move(memory), readers);
    plan_->count(&Held::attachments, -1);
  }

  void settle() noexcept override {
    inner_->settle();
  }

  Result<void> launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t pack_bytes,
                      StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::launch));
    return inner_->launch(kernel, extent, pack, pack_bytes, stream);
  }

  Result<void> begin_capture(StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::capture));
    return inner_->begin_capture(stream);
  }

  Result<std::shared_ptr<BackendGraph>> end_capture(StreamHandle stream) override {
    // It ends even if this call is to fail, because the stream is needed again.
    auto graph = inner_->end_capture(stream);
    GPUACTORS_TRY(plan_->enter(Call::capture));
    return graph;
  }

  Result<void> launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::launch));
    return inner_->launch(graph, stream);
  }

  Result<std::shared_ptr<void>> make_current() override {
    GPUACTORS_TRY(plan_->enter(Call::make_current));
    return inner_->make_current();
  }

  Result<RuntimeKernel> compile(const KernelSource& source) override {
    GPUACTORS_TRY(plan_->enter(Call::compile));
    return inner_->compile(source);
  }

  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape, std::span<const KernelArgument> arguments,
                      StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::launch));
    return inner_->launch(kernel, shape, arguments, stream);
  }

  Result<void> gemm(const Gemm& product, StreamHandle stream) override {
    GPUACTORS_TRY(plan_->enter(Call::gemm));
    return inner_->gemm(product, stream);
  }

private:
  template <class T>
  Result<T> counted(Result<T> made, std::int64_t Held::*what) {
    if (made)
      plan_->count(what, 1);
    return made;
  }

  std::unique_ptr<Backend> inner_;
  std::shared_ptr<Plan> plan_;
};

} // namespace

FaultyDevice::FaultyDevice(std::shared_ptr<Device> inner, std::shared_ptr<Plan> plan)
  : inner_(std::move(inner)), plan_(std::move(plan)) {
  // nop
}

Result<DeviceMemory> FaultyDevice::memory() {
  GPUACTORS_TRY(plan_->enter(Call::memory));
  return inner_->memory();
}

Result<std::unique_ptr<Backend>> FaultyDevice::open(const BackendOptions& options) {
  GPUACTORS_TRY(plan_->enter(Call::open));
  GPUACTORS_LET(inner, inner_->open(options));
  return std::make_unique<FaultyBackend>(std::move(inner), plan_);
}

Result<std::size_t> FaultyDevice::shared_footprint(std::size_t bytes) {
  GPUACTORS_TRY(plan_->enter(Call::shared_footprint));
  return inner_->shared_footprint(bytes);
}

Result<std::shared_ptr<SharedMemory>> FaultyDevice::make_shared_memory(std::size_t bytes) {
  GPUACTORS_TRY(plan_->enter(Call::make_shared_memory));
  return inner_->make_shared_memory(bytes);
}

Result<std::shared_ptr<SharedMemory>> FaultyDevice::open_shared_memory(int descriptor, std::size_t bytes) {
  GPUACTORS_TRY(plan_->enter(Call::open_shared_memory));
  return inner_->open_shared_memory(descriptor, bytes);
}

void FaultyDevice::dispose(std::shared_ptr<void> what) {
  inner_->dispose(std::move(what));
}

std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> decorator(std::shared_ptr<Plan> plan,
                                                                          std::optional<int> index) {
  return [plan = std::move(plan), index](std::shared_ptr<Device> device) -> std::shared_ptr<Device> {
    if (index && device->info().index != *index)
      return device;
    return std::make_shared<FaultyDevice>(std::move(device), plan);
  };
}

} // namespace gpuactors::faulty
