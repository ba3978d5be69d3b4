// HostBackend: one lease's part of a host device. Internal to device/host.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/detail/serving_device.hpp>
#include <gpuactors/device/host/core.hpp>
#include <gpuactors/device/quota.hpp>

#include <unordered_map>

namespace gpuactors::host {

/// Alignment and granularity of allocations in bytes, as on CUDA.
inline constexpr std::size_t block_bytes = 256;

/// Rounds up to whole blocks; wraps around for the last block below 2^64, which callers refuse.
[[nodiscard]] constexpr std::size_t round_to_block(std::size_t bytes) noexcept {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

class HostBackend final : public BasicBackend {
public:
  /// @param memory counts what is really allocated: memory whose free is still queued counts until it is freed.
  HostBackend(const BackendOptions& options, Pool& pool, std::shared_ptr<Quota> memory, int threads);
  ~HostBackend() override;

  [[nodiscard]] ContextGrant granted() const override;

  /// Always false: host memory is lost only with its process.
  [[nodiscard]] bool lost() const noexcept override {
    return false;
  }

  [[nodiscard]] bool is_served_here() const noexcept override {
    return detail::ServingDevice::is_here();
  }

  Result<StreamHandle> make_stream() override;
  void destroy_stream(StreamHandle stream) noexcept override;
  Result<void> synchronize(StreamHandle stream) override;
  Result<EventHandle> make_event() override;
  void destroy_event(EventHandle event) noexcept override;
  Result<void> record(EventHandle event, StreamHandle stream) override;
  Result<void> wait(StreamHandle stream, EventHandle event) override;
  Result<bool> query(EventHandle event) override;
  Result<void> notify(StreamHandle stream, std::function<void(Result<void>)> callback) override;

  Result<void*> allocate(std::size_t bytes, StreamHandle stream) override;
  using Backend::free;
  void free(void* pointer, StreamHandle stream, std::span<const EventHandle> readers) noexcept override;
  Result<void> copy(void* target, const void* source, std::size_t bytes, CopyKind kind, StreamHandle stream) override;
  Result<void> fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) override;
  [[nodiscard]] std::size_t footprint(std::size_t bytes) const noexcept override;

  using BasicBackend::launch;
  Result<void> launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t pack_bytes,
                      StreamHandle stream) override;
  Result<void> gemm(const Gemm& product, StreamHandle stream) override;

  Result<void> begin_capture(StreamHandle stream) override;
  Result<std::shared_ptr<BackendGraph>> end_capture(StreamHandle stream) override;
  Result<void> launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) override;

private:
  /// Frees `pointer` now and returns its size to the quota.
  void free_now(void* pointer) noexcept;

  BackendOptions options_;
  Pool& pool_;
  std::shared_ptr<Quota> memory_;
  std::shared_ptr<Core> core_;
  std::mutex mutex_;
  /// Allocations and their sizes in bytes. Guarded by `mutex_`.
  std::unordered_map<void*, std::size_t> blocks_;
};

} // namespace gpuactors::host
