// The state behind Context, Stream and Buffer. Internal to the device layer.
#pragma once

#include <gpuactors/device/context.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace gpuactors::detail {

/// Events of marks that no longer exist, for reuse. Separate from `Ground`, because a mark may be destroyed on any
/// thread, even one of the backend's, and must not keep a context alive while it is. Any thread.
struct IdleEvents {
  std::mutex mutex;
  std::vector<EventHandle> events;
};

/// The backend of a context, with everything needed to free its memory. Lives until the context and the last storage,
/// hence the last pin, are gone. Threads other than the context's call only what any thread may call.
struct Ground {
  std::shared_ptr<Device> device;
  std::shared_ptr<Quota> quota;
  std::unique_ptr<Backend> backend;
  /// All streams ever made. They are reused, not destroyed, so that storage can be freed on the stream it was allocated
  /// on, however late that is.
  std::vector<StreamHandle> streams;
  /// All events ever made for marks; reused likewise.
  std::vector<EventHandle> events;
  std::shared_ptr<IdleEvents> idle_events = std::make_shared<IdleEvents>();

  /// Reserves in the quota. If there is no room, waits for shared memory that is being released and tries once more.
  /// The context's thread.
  Result<void> reserve(std::uint64_t bytes);

  ~Ground();
};

/// Returns one that may lose its last owner anywhere, also in a callback of a device: then it ends on a thread for
/// that.
[[nodiscard]] std::shared_ptr<Ground> make_ground();

/// The state that the copies of a mark share. It keeps no context alive, because a context waits for its work at its
/// end. Once the state is destroyed, its event is reused for another mark.
struct MarkState {
  std::weak_ptr<Ground> ground;
  std::shared_ptr<IdleEvents> idle;
  EventHandle event;

  MarkState(const std::shared_ptr<Ground>& home, EventHandle made);
  MarkState(const MarkState&) = delete;
  MarkState& operator=(const MarkState&) = delete;
  ~MarkState();
};

/// A stream of another context that reads a storage. `mark` is behind the work that the stream had queued when it last
/// let go of the storage.
struct Reader {
  StreamHandle stream;
  std::shared_ptr<MarkState> mark;
};

/// Device memory. When its last owner lets go, it is freed, after the work of its readers, and returned to the quota.
/// Any thread.
struct Storage {
  std::shared_ptr<Ground> ground;
  StreamHandle stream;
  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::size_t footprint = 0;
  /// The memory that `pointer` refers to, if processes share it; else null.
  std::shared_ptr<SharedMemory> shared;
  std::mutex mutex;
  /// Guarded by `mutex`.
  std::vector<Reader> readers;

  ~Storage();
};

/// The blocks of one context that still have an owner.
struct BlockRegistry {
  std::mutex mutex;
  Block* first = nullptr;
  /// Blocks that buffers gave up with `Buffer::release`; the context frees them.
  std::vector<std::shared_ptr<Block>> released;
};

/// The storage of a buffer, which the context can take away. Linked into the registry of its context.
struct Block {
  Block(std::shared_ptr<BlockRegistry> home, std::shared_ptr<Storage> memory);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  /// Takes the storage out and unlinks the block. The registry's mutex must be held.
  std::shared_ptr<Storage> take();

  const std::shared_ptr<BlockRegistry> registry;
  std::atomic<void*> pointer;
  const std::size_t bytes;
  /// Null once the context has taken it. The registry's mutex guards it and the links.
  std::shared_ptr<Storage> storage;
  Block* previous = nullptr;
  Block* next = nullptr;
};

/// Memory that processes share, with its charge in a quota. The charge ends when the memory is unmapped.
struct SharedCharge {
  std::shared_ptr<Quota> quota;
  std::uint64_t footprint = 0;
  /// Called when the memory is unmapped; may be empty.
  std::function<void()> on_end;
  std::shared_ptr<SharedMemory> memory;

  /// @param reserved the bytes that are reserved in `from` already.
  SharedCharge(std::shared_ptr<Quota> from, std::uint64_t reserved) : quota(std::move(from)), footprint(reserved) {
    // nop
  }
  SharedCharge(const SharedCharge&) = delete;
  SharedCharge& operator=(const SharedCharge&) = delete;
  ~SharedCharge();
};

/// Returns a block in memory that processes share. The backend of `ground` must be attached to that memory already.
[[nodiscard]] std::shared_ptr<Block> attach(const std::shared_ptr<Ground>& ground, StreamHandle stream,
                                            std::shared_ptr<BlockRegistry> registry,
                                            std::shared_ptr<SharedCharge> charge, std::size_t bytes);

struct ContextState {
  Context* context = nullptr;
  /// Null once the context has ended.
  std::shared_ptr<Ground> ground;
  std::shared_ptr<BlockRegistry> blocks = std::make_shared<BlockRegistry>();
  /// Streams without an owner, for reuse.
  std::vector<StreamHandle> idle;
  /// Whether kernels may be compiled from source.
  bool runtime_source = true;
  /// Whether a product was started that is not part of a graph. What products need was made then.
  bool has_multiplied = false;
  /// Whether no work was queued since all that was queued before is known to be done.
  bool rests = false;
  /// Whether somebody has had the handle of a stream and may queue work unseen.
  bool lent = false;
  /// The stream that is captured; null if none is. And the first call on it that a graph cannot have.
  StreamHandle captured;
  std::optional<Error> refused;

  Result<StreamHandle> take_stream();

  /// Ends the capture of `stream`, if that is the one, and returns what was captured.
  Result<std::shared_ptr<BackendGraph>> end_capture(StreamHandle stream);

  /// Waits for `stream` and makes it available again. Drops its error, because nobody is left to receive it.
  void put_stream(StreamHandle stream) noexcept;

  /// Returns a new mark whose event is yet to be recorded.
  Result<std::shared_ptr<MarkState>> take_mark();

  /// Returns `storage` for work of `stream`, a stream of this context. When the result is destroyed, on any thread, the
  /// memory stays until the work queued on `stream` by then is done.
  Result<std::shared_ptr<Storage>> read(std::shared_ptr<Storage> storage, StreamHandle stream);

  Result<std::shared_ptr<Block>> allocate(std::size_t bytes, StreamHandle stream);

  /// A stream was waited for: if it is the only one, the context rests.
  void has_waited() noexcept {
    rests = !lent && ground->streams.size() == 1;
  }

  /// Waits for all streams, unless the context rests, then frees every block. See `Context::reclaim`.
  Result<std::uint64_t> reclaim();
};

} // namespace gpuactors::detail
