// What stands behind Context, Stream, Buffer and Pin. Internal to the device layer.
#pragma once

#include <gpuactors/device/context.hpp>

#include <atomic>
#include <mutex>

namespace gpuactors::detail {

/// Events of marks that nobody holds. Apart from `Ground`: a mark may go on any thread, also on one of the backend's,
/// and must keep nothing of a context for the time that takes. Any thread.
struct IdleEvents {
  std::mutex mutex;
  std::vector<EventHandle> events;
};

/// The backend of a context with everything that memory needs to be given back: lives until the context and the last
/// storage (so also the last pin) are gone. Other threads than the context's call only what any thread may call.
struct Ground {
  std::shared_ptr<Device> device;
  std::shared_ptr<Quota> quota;
  std::unique_ptr<Backend> backend;
  /// Every stream that was ever made. They are reused, not destroyed, so that storage may be freed on the stream it
  /// was allocated on however late that is.
  std::vector<StreamHandle> streams;
  /// Every event of a mark; reused likewise.
  std::vector<EventHandle> events;
  std::shared_ptr<IdleEvents> idle_events = std::make_shared<IdleEvents>();

  /// Reserves in the quota; what is being let go of makes room first, if need be. The thread of the context.
  Result<void> reserve(std::uint64_t bytes);

  ~Ground();
};

/// What stands behind the copies of a mark. It keeps nothing: the end of a context waits for its work. Its event is
/// recorded again for another mark once it is gone.
struct MarkState {
  std::weak_ptr<Ground> ground;
  std::shared_ptr<IdleEvents> idle;
  EventHandle event;

  MarkState(const std::shared_ptr<Ground>& home, EventHandle made);
  MarkState(const MarkState&) = delete;
  MarkState& operator=(const MarkState&) = delete;
  ~MarkState();
};

/// A stream of another context that uses some memory: what it had queued when it let go of it last.
struct Reader {
  StreamHandle stream;
  std::shared_ptr<MarkState> mark;
};

/// Device memory; freed and given back to the quota with its last holder, after the work of its readers. Any thread.
struct Storage {
  std::shared_ptr<Ground> ground;
  StreamHandle stream;
  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::size_t footprint = 0;
  /// If it is memory that processes share: then this is what `pointer` is.
  std::shared_ptr<SharedMemory> shared;
  std::mutex mutex;
  /// Guarded by `mutex`.
  std::vector<Reader> readers;

  ~Storage();
};

/// The blocks of one context that are still owned by somebody.
struct BlockRegistry {
  std::mutex mutex;
  Block* first = nullptr;
  /// Blocks that their buffers gave up; the context frees them.
  std::vector<std::shared_ptr<Block>> released;
};

/// What a buffer owns: a storage that the context can take away. Linked into the registry of its context.
struct Block {
  Block(std::shared_ptr<BlockRegistry> home, std::shared_ptr<Storage> memory);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  /// Takes the storage out and unlinks. The registry's mutex is held.
  std::shared_ptr<Storage> take();

  const std::shared_ptr<BlockRegistry> registry;
  std::atomic<void*> pointer;
  const std::size_t bytes;
  /// Null once the context took it. Guarded, as the links, by the registry's mutex.
  std::shared_ptr<Storage> storage;
  Block* previous = nullptr;
  Block* next = nullptr;
};

/// Memory that processes share, with what it takes of a quota: both go together, when it is unmapped.
struct SharedCharge {
  std::shared_ptr<Quota> quota;
  std::uint64_t footprint = 0;
  /// Called then; may be empty.
  std::function<void()> on_end;
  std::shared_ptr<SharedMemory> memory;

  /// Of what was reserved there.
  SharedCharge(std::shared_ptr<Quota> from, std::uint64_t reserved) : quota(std::move(from)), footprint(reserved) {
    // nop
  }
  SharedCharge(const SharedCharge&) = delete;
  SharedCharge& operator=(const SharedCharge&) = delete;
  ~SharedCharge();
};

/// A block in memory that processes share, to which the backend of `ground` was told to attach.
[[nodiscard]] std::shared_ptr<Block> attach(const std::shared_ptr<Ground>& ground, StreamHandle stream,
                                            std::shared_ptr<BlockRegistry> registry,
                                            std::shared_ptr<SharedCharge> charge, std::size_t bytes);

struct ContextState {
  Context* context = nullptr;
  /// Null once the context has ended.
  std::shared_ptr<Ground> ground;
  std::shared_ptr<BlockRegistry> blocks = std::make_shared<BlockRegistry>();
  /// Streams that nobody holds at the moment.
  std::vector<StreamHandle> idle;
  /// Whether kernels may be compiled from source.
  bool runtime_source = true;

  Result<StreamHandle> take_stream();

  /// Waits for `stream`; its error is dropped, as there is nobody left to tell.
  void put_stream(StreamHandle stream) noexcept;

  /// A new mark; its event is still to be recorded.
  Result<std::shared_ptr<MarkState>> take_mark();

  /// `storage` for work of `stream`, which is of this context: when the result goes, on whatever thread, the memory
  /// stays until the work that is queued there by then is done.
  Result<std::shared_ptr<Storage>> read(std::shared_ptr<Storage> storage, StreamHandle stream);

  Result<std::shared_ptr<Block>> allocate(std::size_t bytes, StreamHandle stream);

  /// Waits for all streams, then frees every block. See `Context::reclaim`.
  Result<std::uint64_t> reclaim();
};

} // namespace gpuactors::detail
