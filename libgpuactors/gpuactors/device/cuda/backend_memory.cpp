// Memory of one lease on a CUDA device, and copies.
#include <gpuactors/device/cuda/backend.hpp>
#include <gpuactors/device/cuda/device.hpp>
#include <gpuactors/device/cuda/native.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace gpuactors::cuda {

namespace {

/// Most bytes that are fetched by way of pinned memory: of more, the second copy takes longer than what it saves.
constexpr std::size_t most_staged = std::size_t{1} << 20;

} // namespace

std::size_t CudaBackend::footprint(std::size_t bytes) const noexcept {
  return round_up(bytes, block_bytes);
}

Result<void*> CudaBackend::allocate(std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  return allocate_from_pool(bytes, native(stream));
}

Result<void*> CudaBackend::allocate_from_pool(std::size_t bytes, CUstream stream) {
  auto pointer = pool_.allocate(bytes, stream);
  if (pointer || pointer.error().code() != Errc::out_of_memory)
    return pointer;
  // What was freed may still be behind work of its stream, and what the pool keeps in pieces too small. Then decide.
  if (!see_frees())
    GPUACTORS_TRY(wait_for_frees());
  pool_.trim();
  pointer = pool_.allocate(bytes, stream);
  if (pointer || pointer.error().code() != Errc::out_of_memory)
    return pointer;
  // The quota agrees, so it may be that others in this lease only keep what is missing.
  return shared_.pools->try_again([&] { return pool_.allocate(bytes, stream); });
}

bool CudaBackend::give_back() noexcept {
  const bool was_all = see_frees();
  pool_.trim();
  return was_all;
}

bool CudaBackend::see_frees() noexcept {
  const Current current{*shared_.primary};
  const std::lock_guard guard{free_mutex_};
  if (!has_freed_)
    return true;
  auto mark = events_.take();
  if (!mark)
    return false;
  const auto enough = Clock::now() + std::chrono::microseconds{500};
  has_freed_ = service_ != nullptr && is_busy(service_, *mark, enough);
  for (auto* stream : streams_)
    has_freed_ = is_busy(stream, *mark, enough) || has_freed_;
  events_.give_back(*mark);
  return !has_freed_;
}

bool CudaBackend::is_busy(CUstream stream, CUevent mark, TimePoint enough) noexcept {
  if (stream == captured_) {
    // What is captured is no work, and what the stream had before is marked already.
    mark = before_capture_;
  } else {
    if (driver().stream_query(stream) == CUDA_ERROR_NOT_READY)
      return true;
    // For the driver only waits end the use of what was freed, not looks. It waits for a mark that has been passed,
    // which takes microseconds: the stream itself may get more meanwhile, which may take for ever.
    if (driver().event_record(mark, stream) != CUDA_SUCCESS)
      return false; // the context is lost
  }
  while (driver().event_query(mark) == CUDA_ERROR_NOT_READY) {
    if (Clock::now() > enough)
      return true;
    std::this_thread::yield();
  }
  (void)driver().event_synchronize(mark);
  return false;
}

Result<void> CudaBackend::wait_for_frees() {
  std::vector<CUstream> all;
  {
    const std::lock_guard guard{free_mutex_};
    all = streams_;
    // Of a stream that is captured nothing can be waited for but what it had before.
    std::erase(all, captured_);
    if (service_ != nullptr)
      all.push_back(service_);
  }
  if (captured_ != nullptr)
    GPUACTORS_TRY(check(driver().event_synchronize(before_capture_), "cuEventSynchronize", Errc::launch_failed));
  // They end on this thread alone. One by one is enough: nothing new is started meanwhile.
  for (auto* stream : all)
    GPUACTORS_TRY(check(driver().stream_synchronize(stream), "cuStreamSynchronize", Errc::launch_failed));
  return {};
}

void CudaBackend::free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept {
  const Current current{*shared_.primary};
  const std::lock_guard guard{free_mutex_};
  has_freed_ = true;
  if (readers.empty() && streams_.size() == 1 && streams_[0] == native(stream) && captured_ == nullptr) {
    pool_.free(pointer, native(stream));
    freed_on_ = native(stream);
    return;
  }
  // Without a stream nothing is left to free it behind: then it goes with the process.
  if (auto* behind = gather(readers); behind != nullptr)
    pool_.free(pointer, behind);
}

Result<CUstream> CudaBackend::service() {
  if (service_ == nullptr) {
    GPUACTORS_LET(made, partition_.make_stream());
    service_ = made;
  }
  return service_;
}

CUstream CudaBackend::gather(std::span<const EventHandle> readers) noexcept {
  // Not on a stream of the user's: it would wait there for all others.
  auto made = service();
  auto* const behind = made ? *made : streams_.empty() ? nullptr : streams_.front();
  if (behind == nullptr)
    return nullptr;
  // Where the driver cannot make it wait, this thread waits: what is freed too early, others overwrite.
  for (auto* busy : streams_) {
    if (busy != captured_ && driver().stream_query(busy) == CUDA_SUCCESS)
      continue; // what it had is done
    if (busy == captured_) {
      // A mark there would be part of the graph.
      if (driver().stream_wait_event(behind, before_capture_, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)
        (void)driver().event_synchronize(before_capture_);
    } else if (busy != behind
               && (driver().event_record(passed_, busy) != CUDA_SUCCESS
                   || driver().stream_wait_event(behind, passed_, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)) {
      (void)driver().stream_synchronize(busy);
    }
  }
  for (auto reader : readers)
    if (driver().stream_wait_event(behind, native(reader), CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS)
      (void)driver().event_synchronize(native(reader));
  return behind;
}

struct CudaBackend::Going {
  CudaBackend& backend;
  std::shared_ptr<SharedMemory> memory;

  Going(CudaBackend& home, std::shared_ptr<SharedMemory> held) : backend(home), memory(std::move(held)) {
    ++backend.letting_go_;
  }
  Going(const Going&) = delete;
  Going& operator=(const Going&) = delete;

  ~Going() {
    const auto footprint = memory->footprint();
    memory.reset();
    backend.detach(footprint);
    // The last that it does with the backend, whose end waits for it.
    --backend.letting_go_;
  }
};

Result<void> CudaBackend::attach(std::uint64_t footprint) {
  GPUACTORS_TRY(shared_.primary->alive());
  const std::lock_guard guard{keep_mutex_};
  shared_bytes_ += footprint;
  keep_beside();
  return {};
}

void CudaBackend::detach(std::uint64_t footprint) noexcept {
  const std::lock_guard guard{keep_mutex_};
  shared_bytes_ -= footprint;
  keep_beside();
}

void CudaBackend::keep_beside() noexcept {
  const Current current{*shared_.primary};
  pool_.keep(options_.memory_bytes - std::min(options_.memory_bytes, shared_bytes_ + beside_bytes_));
}

void CudaBackend::let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept {
  const Current current{*shared_.primary};
  // Unmapping is in no stream's order: it happens when the service stream is there, on the thread of the closer, which
  // is the only one to have it by then.
  auto slot = std::make_shared<std::shared_ptr<Going>>(std::make_shared<Going>(*this, std::move(memory)));
  auto gone = [closer = shared_.closer, slot](const Result<void>&) { closer->add(std::move(*slot)); };
  const std::lock_guard guard{free_mutex_};
  auto* const behind = gather(readers);
  if (behind != nullptr && shared_.poller->watch(&letting_go_, events_, behind, gone))
    return;
  if (behind != nullptr)
    (void)driver().stream_synchronize(behind);
  gone({});
}

void CudaBackend::settle() noexcept {
  if (letting_go_ > 0)
    drain();
}

void CudaBackend::drain() noexcept {
  shared_.poller->drain(&letting_go_);
  // The closer has mappings of others, too, and ending one may wait for their kernels.
  if (letting_go_ > 0)
    shared_.closer->drain();
}

Result<void> CudaBackend::copy(void* target, const void* source, std::size_t bytes, CopyKind, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  // Addresses are unified: the driver sees the direction.
  const auto begun = driver().memcpy_async(address(target), address(source), bytes, native(stream));
  if (begun == CUDA_SUCCESS) [[likely]]
    return {};
  return check(begun, "cuMemcpyAsync", Errc::copy_failed, fmt::format("{} B", bytes));
}

Result<void> CudaBackend::fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) {
  // In a copy to ordinary memory the driver itself waits for the stream, and the thread sleeps there, however short the
  // wait is.
  auto staged = bytes <= most_staged ? host_memory(bytes) : Result<std::shared_ptr<void>>{nullptr};
  if (!staged || *staged == nullptr)
    return BasicBackend::fetch(host, source, bytes, stream);
  GPUACTORS_TRY(copy(staged->get(), source, bytes, CopyKind::device_to_host, stream));
  if (auto waited = synchronize(stream); !waited) {
    // The copy may be under way: nobody else gets the memory before it is done.
    (void)notify(stream, [kept = std::move(*staged)](const Result<void>&) {});
    return waited;
  }
  std::memcpy(host, staged->get(), bytes);
  return {};
}

Result<void> CudaBackend::copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                                    StreamHandle stream) {
  auto* const there = dynamic_cast<CudaDevice*>(&other.undecorated());
  if (there == nullptr)
    return BasicBackend::copy_from(other, target, source, bytes, stream);
  GPUACTORS_TRY(shared_.primary->alive());
  GPUACTORS_LET(from, there->primary());
  GPUACTORS_TRY(from->alive());
  from->show_to(*shared_.primary, source);
  const Current current{*shared_.primary};
  const auto copied = driver().memcpy_peer_async(address(target), shared_.primary->context(), address(source),
                                                 from->context(), bytes, native(stream));
  // An error of the other device must not cost this one.
  if (copied != CUDA_SUCCESS)
    GPUACTORS_TRY(from->probe());
  return check(copied, "cuMemcpyPeerAsync", Errc::copy_failed,
               fmt::format("{} B of device {}", bytes, from->ordinal()));
}

Result<void> CudaBackend::fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  const auto begun = driver().memset_d8_async(address(target), value, bytes, native(stream));
  if (begun == CUDA_SUCCESS) [[likely]]
    return {};
  return check(begun, "cuMemsetD8Async", Errc::copy_failed, fmt::format("{} B", bytes));
}

} // namespace gpuactors::cuda
