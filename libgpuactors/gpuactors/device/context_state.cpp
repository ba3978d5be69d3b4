// Ownership of device memory: who frees what, when, and what happens to it when its context ends first.
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/detail/context_state.hpp>

#include <algorithm>

namespace gpuactors::detail {

Ground::~Ground() {
  if (backend == nullptr)
    return;
  for (auto event : events)
    backend->destroy_event(event);
  for (auto stream : streams)
    backend->destroy_stream(stream);
}

Storage::~Storage() {
  if (pointer == nullptr)
    return;
  ground->backend->free(pointer, stream);
  ground->quota->release(footprint);
}

Block::Block(std::shared_ptr<BlockRegistry> home, std::shared_ptr<Storage> memory)
  : registry(std::move(home)), pointer(memory->pointer), bytes(memory->bytes), storage(std::move(memory)) {
  std::lock_guard guard{registry->mutex};
  next = registry->first;
  if (next != nullptr)
    next->previous = this;
  registry->first = this;
}

Block::~Block() {
  // Declared before the guard, so dropped after it: freeing may take a while.
  std::shared_ptr<Storage> memory;
  std::lock_guard guard{registry->mutex};
  memory = take();
}

std::shared_ptr<Storage> Block::take() {
  if (storage == nullptr)
    return nullptr;
  (previous != nullptr ? previous->next : registry->first) = next;
  if (next != nullptr)
    next->previous = previous;
  previous = next = nullptr;
  pointer.store(nullptr, std::memory_order_release);
  return std::move(storage);
}

Result<StreamHandle> ContextState::take_stream() {
  if (ground == nullptr)
    return fail(Errc::lease_expired, "the context of this stream has ended");
  if (!idle.empty()) {
    auto stream = idle.back();
    idle.pop_back();
    return stream;
  }
  GPUACTORS_LET(stream, ground->backend->make_stream());
  ground->streams.push_back(stream);
  return stream;
}

void ContextState::put_stream(StreamHandle stream) noexcept {
  if (ground == nullptr)
    return;
  (void)ground->backend->synchronize(stream);
  idle.push_back(stream);
}

Result<std::shared_ptr<MarkState>> ContextState::take_mark() {
  for (const auto& mark : marks)
    if (mark.use_count() == 1)
      return mark;
  GPUACTORS_LET(event, ground->backend->make_event());
  ground->events.push_back(event);
  marks.push_back(std::make_shared<MarkState>(MarkState{ground, event}));
  return marks.back();
}

Result<std::shared_ptr<Block>> ContextState::allocate(std::size_t bytes, StreamHandle stream) {
  if (bytes == 0)
    return fail(Errc::invalid_argument, "an allocation of 0 B was asked for; at least 1 B is needed");
  auto& backend = *ground->backend;
  const auto footprint = backend.footprint(bytes);
  if (footprint < bytes)
    return fail(Errc::invalid_argument, "an allocation of " + std::to_string(bytes) + " B overflows");
  // Reserve first, try, give back on failure.
  GPUACTORS_TRY(ground->quota->reserve(footprint));
  auto pointer = backend.allocate(bytes, stream);
  if (!pointer) {
    ground->quota->release(footprint);
    return fail(pointer.error());
  }
  auto storage = std::make_shared<Storage>();
  storage->ground = ground;
  storage->stream = stream;
  storage->pointer = *pointer;
  storage->bytes = bytes;
  storage->footprint = footprint;
  return std::make_shared<Block>(blocks, std::move(storage));
}

Result<std::uint64_t> ContextState::reclaim() {
  Result<void> outcome;
  for (auto stream : ground->streams) {
    auto done = ground->backend->synchronize(stream);
    if (!done && outcome)
      outcome = std::move(done);
  }
  std::vector<std::shared_ptr<Storage>> taken;
  std::vector<std::shared_ptr<Block>> released;
  {
    std::lock_guard guard{blocks->mutex};
    while (blocks->first != nullptr)
      taken.push_back(blocks->first->take());
    released.swap(blocks->released);
  }
  std::uint64_t freed = 0;
  for (auto& storage : taken) {
    const auto bytes = storage->bytes;
    std::weak_ptr<Storage> watch = storage;
    storage.reset();
    if (watch.expired())
      freed += bytes;
  }
  if (!outcome)
    return fail(outcome.error());
  return freed;
}

} // namespace gpuactors::detail
