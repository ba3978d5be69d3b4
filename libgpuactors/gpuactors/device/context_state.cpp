// Ownership of device memory: who frees what, when, and what happens to it when its context ends first.
#include <gpuactors/base/executor.hpp>
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

std::shared_ptr<Ground> make_ground() {
  return {new Ground, [](Ground* ground) {
            if (ground->backend == nullptr || !ground->backend->is_served_here()) {
              delete ground;
              return;
            }
            // Never destroyed: the program may exit meanwhile.
            static auto& reaper = *new Executor;
            reaper.post([ground] { delete ground; });
          }};
}

Storage::~Storage() {
  if (pointer == nullptr)
    return;
  // A reader whose context has ended is skipped: that context has waited for its work.
  std::vector<std::shared_ptr<Ground>> homes;
  std::vector<EventHandle> events;
  for (const auto& reader : readers) {
    if (auto home = reader.mark->ground.lock()) {
      homes.push_back(std::move(home));
      events.push_back(reader.mark->event);
    }
  }
  if (shared != nullptr) {
    ground->backend->let_go(std::move(shared), events);
    return;
  }
  ground->backend->free(pointer, stream, events);
  ground->quota->release(footprint);
}

MarkState::MarkState(const std::shared_ptr<Ground>& home, EventHandle made)
  : ground(home), idle(home->idle_events), event(made) {
  // nop
}

MarkState::~MarkState() {
  const std::lock_guard guard{idle->mutex};
  idle->events.push_back(event);
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
  // `memory` is declared before the guard, so it is freed after the unlock: freeing may take a while.
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

Result<std::shared_ptr<BackendGraph>> ContextState::end_capture(StreamHandle stream) {
  if (ground == nullptr)
    return fail(Errc::lease_expired, "the context of this stream has ended");
  if (captured.native == nullptr || captured.native != stream.native)
    return fail(Errc::invalid_argument, "the stream was destroyed while it was captured");
  captured = {};
  return ground->backend->end_capture(stream);
}

void ContextState::put_stream(StreamHandle stream) noexcept {
  if (ground == nullptr)
    return;
  if (captured.native == stream.native)
    (void)end_capture(stream);
  (void)ground->backend->synchronize(stream);
  idle.push_back(stream);
}

Result<std::shared_ptr<MarkState>> ContextState::take_mark() {
  {
    auto& idle = *ground->idle_events;
    const std::lock_guard guard{idle.mutex};
    if (!idle.events.empty()) {
      const auto event = idle.events.back();
      idle.events.pop_back();
      return std::make_shared<MarkState>(ground, event);
    }
  }
  GPUACTORS_LET(event, ground->backend->make_event());
  ground->events.push_back(event);
  return std::make_shared<MarkState>(ground, event);
}

Result<std::shared_ptr<Storage>> ContextState::read(std::shared_ptr<Storage> storage, StreamHandle stream) {
  // No mark is needed: memory of this context is freed after all the context's work anyway.
  if (ground == storage->ground)
    return storage;
  std::shared_ptr<MarkState> mark;
  {
    const std::lock_guard guard{storage->mutex};
    auto& readers = storage->readers;
    std::erase_if(readers, [](const Reader& reader) { return reader.mark->ground.expired(); });
    const auto known = std::find_if(readers.begin(), readers.end(), [&](const Reader& reader) {
      // Compares the weak pointers without locking them: a locked pointer might be the last one, and dropping it would
      // end the context, which waits for its work.
      const auto& home = reader.mark->ground;
      return reader.stream.native == stream.native && !home.owner_before(ground) && !ground.owner_before(home);
    });
    if (known != readers.end()) {
      mark = known->mark;
    } else {
      GPUACTORS_LET(made, take_mark());
      mark = made;
      readers.push_back({stream, std::move(made)});
    }
  }
  auto* const memory = storage.get();
  auto let_go = [storage = std::move(storage), mark = std::move(mark), stream](Storage*) mutable {
    // If the reader's context has ended, its work is done.
    if (const auto home = mark->ground.lock(); home != nullptr && !home->backend->record(mark->event, stream))
      (void)home->backend->synchronize(stream);
    mark.reset();
    storage.reset();
  };
  return std::shared_ptr<Storage>{memory, std::move(let_go)};
}

Result<std::shared_ptr<Block>> ContextState::allocate(std::size_t bytes, StreamHandle stream) {
  if (bytes == 0)
    return fail(Errc::invalid_argument, "an allocation of 0 B was asked for; at least 1 B is needed");
  auto& backend = *ground->backend;
  const auto footprint = backend.footprint(bytes);
  if (footprint < bytes)
    return fail(Errc::invalid_argument, "an allocation of " + std::to_string(bytes) + " B overflows");
  // Reserves before it allocates, and gives the bytes back on failure.
  GPUACTORS_TRY(ground->reserve(footprint));
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

Result<void> Ground::reserve(std::uint64_t bytes) {
  auto reserved = quota->reserve(bytes);
  if (reserved)
    return reserved;
  backend->settle();
  return quota->reserve(bytes);
}

SharedCharge::~SharedCharge() {
  memory.reset();
  quota->release(footprint);
  if (on_end)
    on_end();
}

std::shared_ptr<Block> attach(const std::shared_ptr<Ground>& ground, StreamHandle stream,
                              std::shared_ptr<BlockRegistry> registry, std::shared_ptr<SharedCharge> charge,
                              std::size_t bytes) {
  auto* const memory = charge->memory.get();
  auto storage = std::make_shared<Storage>();
  storage->ground = ground;
  storage->stream = stream;
  storage->pointer = memory->data();
  storage->bytes = bytes;
  storage->shared = std::shared_ptr<SharedMemory>{std::move(charge), memory};
  return std::make_shared<Block>(std::move(registry), std::move(storage));
}

Result<std::uint64_t> ContextState::reclaim() {
  // It waits for streams, which would break the capture off.
  if (captured.native != nullptr)
    return fail(Errc::invalid_argument, "memory cannot be reclaimed while a stream is captured");
  Result<void> outcome;
  if (!rests)
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
