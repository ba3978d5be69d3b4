// Context: a task's or actor's part of one device. Everything allocated through it counts against the lease's quota and
// is freed when the context ends, even if the program forgot to.
#pragma once

#include <gpuactors/device/quota.hpp>
#include <gpuactors/device/stream.hpp>

#include <memory>
#include <optional>
#include <string>

namespace gpuactors {

/// Options for opening a context.
struct ContextOptions {
  /// Share of the device, above 0 and at most one whole.
  Share share = Share::whole(1);
  /// The limit of allocated bytes at any instant; 0: the same share of the device's memory.
  std::uint64_t memory_bytes = 0;
  /// The name of the holder, for error texts.
  std::string holder = "context";
  /// The quota that this one is a part of, if the context runs inside another lease.
  std::shared_ptr<Quota> parent = nullptr;
  /// Whether the context may compile kernels from source.
  bool runtime_source = true;
  /// Whether the context's streams only copy. Such a context holds no compute, whatever its share, and opens at once
  /// where a share of the compute would have to be set up first.
  bool copies_only = false;
};

/// A task's or actor's part of one device: quota, streams, memory, compute.
///
/// Lifecycle: open -> used by one thread (the one that opened it) -> closed or destroyed by that thread. At its end,
/// all remaining allocations are freed, except blocks pinned by a reader elsewhere (`Tensor::pinned`), which are freed
/// with their last pinned handle. `memory_*` may be called from any thread.
class Context {
public:
  /// Opens a share of `device`, which must outlive the context and all pinned handles of its memory.
  /// @returns `invalid_argument` for a share outside (0, 1]; the errors of `Device::open`.
  static Result<std::unique_ptr<Context>> open(std::shared_ptr<Device> device, ContextOptions options);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const DeviceInfo& device() const noexcept;

  /// Returns the device itself, for opening another context on it.
  [[nodiscard]] const std::shared_ptr<Device>& device_handle() const noexcept;

  /// Returns the actual grant.
  [[nodiscard]] ContextGrant granted() const;

  /// Returns the default stream of this context.
  [[nodiscard]] Stream& stream() noexcept;

  /// Creates another stream, whose work may overlap with that of others.
  Result<Stream> make_stream();

  /// Returns host memory for copies, with undefined contents.
  /// @returns `invalid_argument` for zero, `out_of_memory` if the host has no more.
  Result<HostBuffer> host_buffer(std::size_t bytes);

  /// Compiles a kernel for this device, or takes it from the cache; may block. The kernel works on the streams of any
  /// context of the device in this process.
  /// @returns `unsupported` on devices other than CUDA, without NVRTC, with GPUACTORS_JIT=off, and on nodes that refuse
  ///          source (`--no-jit`); `invalid_argument` with the compiler's log, including lines, if the source is wrong.
  Result<RuntimeKernel> compile(const KernelSource& source);

  /// Returns the quota, which is the parent of the quotas of children inside this lease.
  [[nodiscard]] const std::shared_ptr<Quota>& quota() const noexcept;

  [[nodiscard]] std::uint64_t memory_used() const noexcept;
  [[nodiscard]] std::uint64_t memory_peak() const noexcept;
  [[nodiscard]] std::uint64_t memory_limit() const noexcept;

  /// Frees every allocation that is not pinned, even if its `Buffer` still exists, after the work that uses it. The
  /// context stays usable. Called between tasks of one lease.
  /// @returns the bytes that were still allocated, without pinned ones; the error of the outstanding work;
  ///          `invalid_argument` while a stream is captured.
  Result<std::uint64_t> reclaim();

  /// Returns whether a sticky error has lost the device to this process (`context_lost`). Any thread.
  [[nodiscard]] bool lost() const noexcept;

private:
  explicit Context(std::shared_ptr<detail::ContextState> state);

  std::shared_ptr<detail::ContextState> state_;
  std::shared_ptr<Quota> quota_;
  std::optional<Stream> stream_;
};

} // namespace gpuactors
