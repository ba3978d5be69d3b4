// Shared tensors: put once, immutable, read by many; their bytes never enter a message.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/v1/tensor.pb.h>
#include <gpuactors/wire/certificates.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gpuactors {

class BulkClient;
class BulkServer;
class TensorDraft;
class TensorStore;

namespace detail {
class Coming;
class Descriptor;
class TensorTable;
struct TensorEntry;
} // namespace detail

template <class T>
class Shared;

/// A counted handle to an immutable tensor in the tensor store. Copyable; any thread. Except for `operator bool`, do
/// not call members on an empty handle.
///
/// A tensor that a task or actor put from its device stays there, in the owner's quota, until the last handle is gone.
/// If the owner ends first, the tensor is lost, and reading it fails with `actor_died`; the same holds for a process of
/// the same machine that has it open on a device. A tensor in host memory, whether put there or copied there by another
/// process, remains readable while a handle lives, even after its owner has ended.
template <>
class Shared<Tensor> {
public:
  Shared() = default;

  explicit operator bool() const noexcept {
    return entry_ != nullptr;
  }

  [[nodiscard]] DType dtype() const noexcept;

  /// Returns the shape. A dimension may be 0 if the tensor is in host memory.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept;

  /// Returns a reference to send in a message. It is valid while some handle to the tensor lives in this process.
  [[nodiscard]] v1::TensorRef ref() const;

  /// Returns a reference that keeps the tensor alive by itself, until one `get` has taken it, its owner or process
  /// ends, or the time `keep` has passed; so nothing leaks if the receiver dies. The handle is empty afterwards.
  [[nodiscard]] v1::TensorRef hand_over(Duration keep = limits::hand_over) &&;

  /// Returns the tensor for reading on its own device, without a copy. The memory stays readable while the result
  /// lives, even if the owner ends; work that reads it must be done before the result is destroyed (not so with `on`).
  /// @returns `unsupported` if it is in host memory (`Cluster::put`, or from another process), `actor_died` if the
  ///          owner has ended.
  [[nodiscard]] Result<Tensor> view() const;

  /// Returns the tensor on the device of `stream`, for work of that stream: in place if it is on that device, else as a
  /// copy. If another process owns the memory, the tensor counts in the quota like a copy while the result lives. You
  /// may destroy the result while that work is still queued: the memory stays until all work queued on `stream` by then
  /// is done. If other streams read the tensor, synchronize with them, or make `stream` wait for them, before that.
  /// @returns `actor_died` if the owner has ended, `out_of_memory` if the copy does not fit the quota,
  ///          `invalid_argument` if it has no elements.
  [[nodiscard]] Result<Tensor> on(Stream& stream) const;

  /// Returns the elements in host memory; without a copy if they are there already, as after `Cluster::put` or when
  /// they came from another process. Valid while a handle to the tensor lives.
  /// @returns `invalid_argument` if `T` is not the element type, `actor_died` if the owner has ended.
  template <class T>
  [[nodiscard]] Result<std::span<const T>> host() const {
    GPUACTORS_LET(data, host(dtype_of<T>));
    return std::span<const T>{static_cast<const T*>(data), static_cast<std::size_t>(size())};
  }

  /// Copies the elements to the host.
  /// @returns `invalid_argument` if `T` is not the element type, `actor_died` if the owner has ended.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(size()));
    GPUACTORS_TRY(read(values.data(), dtype_of<T>));
    return values;
  }

  /// Returns the number of elements.
  [[nodiscard]] std::int64_t size() const noexcept;

private:
  friend class TensorDraft;
  friend class TensorStore;

  explicit Shared(std::shared_ptr<detail::TensorEntry> entry) : entry_(std::move(entry)) {
    // nop
  }

  [[nodiscard]] Result<void> check(DType wanted) const;
  Result<void> read(void* values, DType dtype) const;
  [[nodiscard]] Result<const void*> host(DType dtype) const;

  std::shared_ptr<detail::TensorEntry> entry_;
};

/// Host memory for a tensor that is not shared yet. It is undefined at first; fill it, then `share` it without a copy.
/// Movable; one thread at a time. Do not use it after `share` or a move.
class TensorDraft {
public:
  [[nodiscard]] DType dtype() const noexcept {
    return dtype_;
  }

  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept {
    return shape_;
  }

  /// Returns the memory of all elements, row by row.
  [[nodiscard]] std::span<std::byte> bytes() noexcept {
    return {region_.data(), region_.size()};
  }

  /// Returns the elements. @returns `invalid_argument` if `T` is not the element type.
  template <class T>
  [[nodiscard]] Result<std::span<T>> values() {
    GPUACTORS_TRY(check(dtype_of<T>));
    return std::span<T>{reinterpret_cast<T*>(region_.data()), region_.size() / sizeof(T)};
  }

  /// Ends writing, and shares the tensor. Do not write through spans of its memory afterwards.
  [[nodiscard]] Shared<Tensor> share() &&;

private:
  friend class TensorStore;

  TensorDraft(std::shared_ptr<detail::TensorTable> table, RegionDraft region, DType dtype,
              std::vector<std::int64_t> shape);
  [[nodiscard]] Result<void> check(DType wanted) const;

  std::shared_ptr<detail::TensorTable> table_;
  RegionDraft region_;
  DType dtype_;
  std::vector<std::int64_t> shape_;
};

/// How a process shares its tensors with other processes.
struct TensorLinks {
  /// Where other machines reach this one; without a host they cannot.
  Listening listening{};
  /// The certificates for TLS; without them, the links use plaintext, which only an operator may choose.
  std::optional<CertificateFiles> certificates{};
  /// Whether processes of this machine share memory; otherwise they use TCP as well.
  bool shares_memory = true;
};

/// The shared tensors of one process. Any thread.
///
/// With `TensorLinks`, the store serves them to other processes and fetches theirs; it opens ports and starts threads
/// for that with the first tensor.
class TensorStore {
public:
  explicit TensorStore(std::optional<TensorLinks> links = std::nullopt);

  /// Calls `close`.
  ~TensorStore();

  /// Sets the devices of this process on which the store may open memory of other processes from now on.
  void use_devices(const std::vector<std::shared_ptr<Device>>& devices);

  /// Shares `tensor` in place: it stays on its device, in its owner's quota. Waits until the work queued on `stream`
  /// (the stream that produced it) is done, and returns that work's error. Nothing may write to its memory any more,
  /// also not by other tensors in that memory (`Tensor::rows`): readers would see it. `put_copy` shares values that
  /// change.
  /// @returns `unavailable` after `close`, or if there is no port or thread to serve it.
  Result<Shared<Tensor>> put(Tensor tensor, Stream& stream);

  /// Shares `tensor` without waiting: you may pass it on while the work that computes it is still queued on `stream`.
  /// On a CUDA device, work that uses it through `Shared::on` waits on the device; other readers wait until it is
  /// computed. Readers get the error of that work; `synchronize` of the stream does not return it any more.
  Result<Shared<Tensor>> put_queued(Tensor tensor, Stream& stream);

  /// Returns host memory for a tensor, for the caller to fill and share. Saves a copy for contents that arrive in parts
  /// or are written by work on a device.
  /// @returns `invalid_argument` for an invalid shape, `out_of_memory`, or the errors of `put`.
  Result<TensorDraft> draft(DType dtype, std::vector<std::int64_t> shape);

  /// Copies `count` elements into host memory.
  /// @returns `invalid_argument` if the shape has another number of elements, `out_of_memory`, or the errors of `put`.
  Result<Shared<Tensor>> put_copy(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);

  /// Copies a tensor into host memory; `stream` is the stream that produced it.
  Result<Shared<Tensor>> put_copy(const Tensor& tensor, Stream& stream);

  /// Returns the tensor that `ref` names. A tensor of another process is fetched: mapped on the same machine, else
  /// copied. Blocks until all of it has arrived, for at most `timeout`. Does not fetch a tensor again while a handle to
  /// it lives here.
  /// @returns `deadline_exceeded` after `timeout`, `not_found` if no handle to it is left, or if its process serves no
  ///          tensors; `worker_died` if its process has ended, `actor_died` if its owner has ended, `unavailable` if
  ///          the process cannot be reached, makes no progress or is ending, `out_of_memory`, `invalid_argument` for a
  ///          malformed reference, `cancelled` if this store is closed meanwhile.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref, Duration timeout = Duration::max());

  /// Returns the number of tensors kept now.
  [[nodiscard]] std::size_t size() const;

  /// Ends transfers and hand-overs; tensors stay readable through existing handles. Idempotent.
  void close();

private:
  Shared<Tensor> add(Tensor tensor, Stream& stream, std::shared_ptr<detail::Coming> coming);
  Result<void> start();
  Result<void> connect();
  Result<std::shared_ptr<detail::TensorEntry>> fetch(const v1::TensorRef& ref, TimePoint deadline);
  /// Returns the devices of this process on which to open memory of the device `uuid`: only that device if this process
  /// has it, else every device that is open. Devices that are not open do not count.
  [[nodiscard]] std::vector<std::shared_ptr<Device>> devices_for(const std::string& uuid) const;
  /// Opens `memory`, device memory of another process, on the first of `devices` that can open it. @returns `line` if
  /// `entry` now refers to that memory, else null.
  static std::shared_ptr<detail::Descriptor> open_on_device(detail::TensorEntry& entry,
                                                            const std::vector<std::shared_ptr<Device>>& devices,
                                                            const std::string& uuid, int memory,
                                                            std::shared_ptr<detail::Descriptor> line);

  const std::optional<TensorLinks> links_;
  const std::shared_ptr<detail::TensorTable> table_;
  // Guards `start` and `close`, and the members up to `keeper_`.
  std::mutex mutex_;
  bool started_ = false;
  bool closed_ = false;
  std::unique_ptr<BulkServer> server_;
  std::unique_ptr<BulkClient> client_;
  std::thread keeper_;
  // Guards `devices_`. A separate mutex, because `close` holds `mutex_` while it waits for running fetches.
  mutable std::mutex devices_mutex_;
  std::vector<std::shared_ptr<Device>> devices_;
};

} // namespace gpuactors
