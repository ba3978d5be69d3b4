// Memory, transfers, kernels and products of one lease on the CPU.
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/host/backend.hpp>
#include <gpuactors/device/host/blas.hpp>
#include <gpuactors/device/host/pool.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace gpuactors::host {

namespace {

/// An event: its last record. The mutex is there because any thread may record it and ask for it.
struct HostEvent {
  std::mutex mutex;
  std::shared_ptr<Record> last;

  std::shared_ptr<Record> current() {
    std::lock_guard guard{mutex};
    return last;
  }
};

HostStream* native(StreamHandle stream) {
  return static_cast<HostStream*>(stream.native);
}

HostEvent* native(EventHandle event) {
  return static_cast<HostEvent*>(event.native);
}

/// The arguments of a launch, kept until it runs.
struct Pack {
  alignas(std::max_align_t) std::array<std::byte, limits::kernel_argument_bytes> bytes;
};

/// Work as it would be queued, in its order.
struct HostGraph final : BackendGraph {
  std::vector<std::unique_ptr<Plain>> ops;

  [[nodiscard]] std::size_t operations() const noexcept override {
    return ops.size();
  }
};

/// A loop whose first piece takes longer than this is offered to other threads.
constexpr auto worth_sharing = std::chrono::microseconds{20};
constexpr std::uint64_t pieces_per_thread = 8;

/// Runs a kernel over 0..n-1. One thread starts; others are asked to help only if the first piece takes long.
Result<void> run_kernel(Core& core, const KernelInfo& kernel, std::uint64_t n, const Pack& pack) {
  const auto guarded = [&](std::uint64_t begin, std::uint64_t end) -> Result<void> {
    try {
      kernel.host(begin, end, pack.bytes.data());
      return {};
    } catch (const std::exception& error) {
      return fail(Errc::launch_failed, fmt::format("kernel {} threw: {}", kernel.name, error.what()));
    } catch (...) {
      return fail(Errc::launch_failed, fmt::format("kernel {} threw", kernel.name));
    }
  };
  const auto wanted = static_cast<std::uint64_t>(core.permits()) * pieces_per_thread;
  if (core.permits() == 1 || n == 1)
    return guarded(0, n);
  const auto piece = std::max<std::uint64_t>(1, n / wanted + (n % wanted != 0));
  const auto start = Clock::now();
  GPUACTORS_TRY(guarded(0, std::min(piece, n)));
  if (piece >= n)
    return {};
  if (Clock::now() - start < worth_sharing)
    return guarded(piece, n);
  std::mutex mutex;
  Result<void> outcome;
  const auto rest = static_cast<std::size_t>((n - piece + piece - 1) / piece);
  core.parallel(rest, [&](std::size_t i) {
    const auto begin = (i + 1) * piece;
    auto result = guarded(begin, begin + std::min(piece, n - begin));
    std::lock_guard guard{mutex};
    if (!result && outcome)
      outcome = std::move(result);
  });
  return outcome;
}

} // namespace

// -- lifetime ------------------------------------------------------------------------------------

HostBackend::HostBackend(const BackendOptions& options, Pool& pool, std::shared_ptr<Quota> memory, int threads)
  : options_(options), pool_(pool), memory_(std::move(memory)), core_(std::make_shared<Core>(pool, threads)) {
  pool_.add_permits(threads);
}

HostBackend::~HostBackend() {
  core_->drain();
  pool_.add_permits(-core_->permits());
  // Memory that was never freed is freed with the backend, like the allocations of a memory pool.
  for (auto [pointer, bytes] : blocks_) {
    std::free(pointer);
    memory_->release(bytes);
  }
}

ContextGrant HostBackend::granted() const {
  const auto whole = options_.share == Share::whole(1);
  return {options_.share, memory_->limit(), core_->permits(),
          whole ? ComputeEnforcement::exclusive : ComputeEnforcement::threads};
}

// -- streams and events --------------------------------------------------------------------------

Result<StreamHandle> HostBackend::make_stream() {
  return StreamHandle{core_->make_stream()};
}

void HostBackend::destroy_stream(StreamHandle stream) noexcept {
  core_->destroy_stream(native(stream));
}

Result<void> HostBackend::synchronize(StreamHandle stream) {
  return core_->synchronize(native(stream));
}

Result<EventHandle> HostBackend::make_event() {
  return EventHandle{new HostEvent};
}

void HostBackend::destroy_event(EventHandle event) noexcept {
  delete native(event);
}

Result<void> HostBackend::record(EventHandle event, StreamHandle stream) {
  auto record = std::make_shared<Record>();
  {
    std::lock_guard guard{native(event)->mutex};
    native(event)->last = record;
  }
  Task task;
  task.run = [record = std::move(record)]() -> Result<void> {
    record->complete();
    return {};
  };
  task.prompt = true;
  core_->submit(native(stream), std::move(task));
  return {};
}

Result<void> HostBackend::wait(StreamHandle stream, EventHandle event) {
  auto record = native(event)->current();
  if (record == nullptr || record->done())
    return {};
  Task task;
  task.wait_for = std::move(record);
  core_->submit(native(stream), std::move(task));
  return {};
}

Result<bool> HostBackend::query(EventHandle event) {
  const auto record = native(event)->current();
  return record == nullptr || record->done();
}

Result<void> HostBackend::notify(StreamHandle stream, std::function<void(Result<void>)> callback) {
  Task task;
  task.callback = std::move(callback);
  core_->submit(native(stream), std::move(task));
  return {};
}

// -- memory --------------------------------------------------------------------------------------

std::size_t HostBackend::footprint(std::size_t bytes) const noexcept {
  return round_to_block(bytes);
}

Result<void*> HostBackend::allocate(std::size_t bytes, StreamHandle) {
  const auto size = round_to_block(bytes);
  if (size < bytes)
    return fail(Errc::invalid_argument, fmt::format("an allocation of {} B overflows", bytes));
  if (auto reserved = memory_->reserve(size); !reserved) {
    // Memory whose free is queued behind other work still counts: waits for that work and tries again.
    core_->drain();
    GPUACTORS_TRY(memory_->reserve(size));
  }
  auto* pointer = std::aligned_alloc(block_bytes, size);
  if (pointer == nullptr) {
    memory_->release(size);
    return fail(Errc::out_of_memory, fmt::format("the machine has no {} B of memory left", size));
  }
  std::lock_guard guard{mutex_};
  blocks_.emplace(pointer, size);
  return pointer;
}

void HostBackend::free(void* pointer, StreamHandle, std::span<const EventHandle> readers) noexcept {
  std::vector<std::shared_ptr<Record>> reading;
  for (auto reader : readers) {
    if (auto record = native(reader)->current(); record != nullptr && !record->done())
      reading.push_back(std::move(record));
  }
  core_->after_all([this, pointer] { free_now(pointer); }, std::move(reading));
}

void HostBackend::free_now(void* pointer) noexcept {
  std::size_t size = 0;
  {
    std::lock_guard guard{mutex_};
    const auto found = blocks_.find(pointer);
    if (found == blocks_.end())
      return;
    size = found->second;
    blocks_.erase(found);
  }
  std::free(pointer);
  memory_->release(size);
}

Result<void> HostBackend::copy(void* target, const void* source, std::size_t bytes, CopyKind, StreamHandle stream) {
  core_->submit_plain(native(stream), [target, source, bytes]() -> Result<void> {
    std::memmove(target, source, bytes);
    return {};
  });
  return {};
}

Result<void> HostBackend::fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) {
  core_->submit_plain(native(stream), [target, value, bytes]() -> Result<void> {
    std::memset(target, value, bytes);
    return {};
  });
  return {};
}

// -- compute -------------------------------------------------------------------------------------

Result<void> HostBackend::launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack,
                                 std::size_t pack_bytes, StreamHandle stream) {
  if (kernel.host == nullptr)
    return fail(Errc::unsupported, fmt::format("kernel {} has no code for host devices: it was defined with none, for "
                                               "CUDA only",
                                               kernel.name));
  if (pack_bytes > limits::kernel_argument_bytes)
    return fail(Errc::invalid_argument, fmt::format("kernel {} has {} B of arguments; {} B is the most", kernel.name,
                                                    pack_bytes, limits::kernel_argument_bytes));
  Pack copy;
  std::memcpy(copy.bytes.data(), pack, pack_bytes);
  core_->submit_plain(native(stream), [this, kernel, n = extent.count, copy]() -> Result<void> {
    return run_kernel(*core_, kernel, n, copy);
  });
  return {};
}

Result<void> HostBackend::gemm(const Gemm& product, StreamHandle stream) {
  GPUACTORS_TRY(load_blas());
  for (auto size : {product.m, product.n, product.k, product.lda, product.ldb, product.ldc}) {
    if (size > std::numeric_limits<std::int32_t>::max())
      return fail(Errc::unsupported,
                  fmt::format("a matrix dimension of {} is beyond what BLAS takes (2^31 - 1)", size));
  }
  core_->submit_plain(native(stream), [this, product]() -> Result<void> {
    const auto tiles = cut_gemm(product.m, product.n, product.k, core_->permits());
    std::mutex mutex;
    Result<void> outcome;
    core_->parallel(tiles.count, [&](std::size_t tile) {
      auto result = run_gemm_tile(product, tiles, tile);
      if (result)
        return;
      const std::lock_guard guard{mutex};
      outcome = std::move(result);
    });
    return outcome;
  });
  return {};
}

// -- graphs -------------------------------------------------------------------------------

Result<void> HostBackend::begin_capture(StreamHandle stream) {
  if (!core_->begin_capture(native(stream)))
    return fail(Errc::invalid_argument, "the stream is being captured already");
  return {};
}

Result<std::shared_ptr<BackendGraph>> HostBackend::end_capture(StreamHandle stream) {
  auto graph = std::make_shared<HostGraph>();
  graph->ops = core_->end_capture(native(stream));
  return graph;
}

Result<void> HostBackend::launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) {
  auto own = std::dynamic_pointer_cast<HostGraph>(graph);
  if (own == nullptr)
    return fail(Errc::invalid_argument, "the graph was captured on another kind of device");
  Task task;
  task.run = [own = std::move(own)]() -> Result<void> {
    // As without a graph: what comes behind a failure runs, and the first error is told.
    Result<void> outcome;
    for (const auto& op : own->ops)
      if (auto result = op->call(op->bytes.data()); !result && outcome)
        outcome = std::move(result);
    return outcome;
  };
  core_->submit(native(stream), std::move(task));
  return {};
}

} // namespace gpuactors::host
