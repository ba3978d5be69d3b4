// Tensors that are shared: put once, immutable, read by many, without their bytes ever entering a message.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/v1/tensor.pb.h>
#include <gpuactors/wire/certificates.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace gpuactors {

class BulkClient;
class BulkServer;
class TensorStore;

namespace detail {
class Coming;
class Descriptor;
class TensorTable;
struct TensorEntry;
} // namespace detail

template <class T>
class Shared;

/// A counted handle to an immutable tensor in the tensor store. Copyable; any thread. All but `bool` and the references
/// need a handle that is not empty.
///
/// A tensor that a task or actor put from its device stays there, in its quota, until the last handle is gone; when the
/// owner ends first, the tensor is lost, and reading it fails with `actor_died`. So it is for a process of the same
/// machine that has it open on a device. One that was put into host memory, or that was brought to that of another
/// process, is lost to nobody while a handle lives, whatever becomes of its owner.
template <>
class Shared<Tensor> {
public:
  Shared() = default;

  explicit operator bool() const noexcept {
    return entry_ != nullptr;
  }

  [[nodiscard]] DType dtype() const noexcept;

  /// A dimension may be 0 for what lies in host memory.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept;

  /// A reference to send in a message: valid while some handle to the tensor lives in this process.
  [[nodiscard]] v1::TensorRef ref() const;

  /// A reference that keeps the tensor by itself: until somebody has it from `get` (once), its owner or process ends,
  /// or `keep` is over, so that nothing stays for ever when the one who should take it dies. The handle is empty
  /// afterwards.
  [[nodiscard]] v1::TensorRef hand_over(Duration keep = limits::hand_over) &&;

  /// The tensor for reading on the device it lies on, without a copy. The memory stays readable while the result
  /// lives, even if the owner ends; work that reads it must be done when the result goes (`on` does not ask for that).
  /// @returns `unsupported` when it lies in host memory (`Cluster::put`, or from another process), `actor_died` when
  ///          the owner has ended.
  [[nodiscard]] Result<Tensor> view() const;

  /// The tensor on the device of `stream`, for work of that stream: without a copy when it lies there, else copied.
  /// What lies there in memory of another process counts in the quota as a copy would, while the result lives. The
  /// result may go while that work is still queued: the memory stays until all that is queued there by then is done.
  /// Other streams that read it are made to wait for, or waited for, before the result goes.
  /// @returns `actor_died` when the owner has ended, `out_of_memory` when the copy does not fit the quota,
  ///          `invalid_argument` when it has no elements.
  [[nodiscard]] Result<Tensor> on(Stream& stream) const;

  /// The elements in host memory, without a copy if they lie there, as those of `Cluster::put` and those that came from
  /// another process do. Valid while a handle to the tensor lives.
  /// @returns `invalid_argument` when `T` is not the element type, `actor_died` when the owner has ended.
  template <class T>
  [[nodiscard]] Result<std::span<const T>> host() const {
    GPUACTORS_LET(data, host(dtype_of<T>));
    return std::span<const T>{static_cast<const T*>(data), static_cast<std::size_t>(size())};
  }

  /// Copies the elements to the host.
  /// @returns `invalid_argument` when `T` is not the element type, `actor_died` when the owner has ended.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(size()));
    GPUACTORS_TRY(read(values.data(), dtype_of<T>));
    return values;
  }

  /// Number of elements.
  [[nodiscard]] std::int64_t size() const noexcept;

private:
  friend class TensorStore;

  explicit Shared(std::shared_ptr<detail::TensorEntry> entry) : entry_(std::move(entry)) {
    // nop
  }

  [[nodiscard]] Result<void> check(DType wanted) const;
  Result<void> read(void* values, DType dtype) const;
  [[nodiscard]] Result<const void*> host(DType dtype) const;

  std::shared_ptr<detail::TensorEntry> entry_;
};

/// How the tensors of a process get to others.
struct TensorLinks {
  /// Under which address other machines reach this one; empty: they do not.
  std::string host{};
  /// TLS with these; none means plaintext, which only an operator may wish.
  std::optional<CertificateFiles> certificates{};
  /// Whether processes of this machine share memory; else the bytes go over TCP between them as well.
  bool shares_memory = true;
};

/// The shared tensors of one process. Any thread.
///
/// With `TensorLinks` it serves them to other processes and fetches theirs; ports and threads for that are there from
/// the first tensor on.
class TensorStore {
public:
  explicit TensorStore(std::optional<TensorLinks> links = std::nullopt);

  /// Closes.
  ~TensorStore();

  /// Devices of this process, on which it may from now on open memory of others.
  void use_devices(const std::vector<std::shared_ptr<Device>>& devices);

  /// Shares `tensor` in place: it stays on its device, in its owner's quota. Waits until the work queued on `stream`
  /// (the one that produced it) is done, and reports that work's error.
  /// @returns `unavailable` after `close`, or when there is no port or thread to serve it.
  Result<Shared<Tensor>> put(Tensor tensor, Stream& stream);

  /// The same without waiting: the tensor may be handed over while the work that makes it is still queued on `stream`.
  /// On a CUDA device, work that takes it by `Shared::on` waits there; whoever else reads it waits until it is made. An
  /// error of that work is told to those who read, and by `synchronize` of the stream no more.
  Result<Shared<Tensor>> put_queued(Tensor tensor, Stream& stream);

  /// Copies `count` elements into host memory.
  /// @returns `invalid_argument` when the shape has another number of them, `out_of_memory`, else as above.
  Result<Shared<Tensor>> put_copy(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);

  /// Copies a tensor into host memory; `stream` is the one that produced it.
  Result<Shared<Tensor>> put_copy(const Tensor& tensor, Stream& stream);

  /// The tensor that `ref` names; one of another process is fetched: mapped on the same machine, else copied. Blocks
  /// until all of it is here. Nothing is fetched twice while a handle to it lives here.
  /// @returns `not_found` when nobody keeps it any more, or when its process serves nobody; `worker_died` when its
  ///          process has ended, `actor_died` when its owner has, `unavailable` when it cannot be reached, stands still
  ///          or ends itself, `out_of_memory`, `invalid_argument` when the reference makes no sense, `cancelled` when
  ///          this store is closed meanwhile.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref);

  /// Tensors that are kept now.
  [[nodiscard]] std::size_t size() const;

  /// Ends transfers and what was handed over; tensors stay readable by those who have a handle. Idempotent.
  void close();

private:
  Shared<Tensor> add(Tensor tensor, Stream& stream, std::shared_ptr<detail::Coming> coming);
  Result<void> start();
  Result<void> connect();
  Result<std::shared_ptr<detail::TensorEntry>> fetch(const v1::TensorRef& ref);
  /// Those of our devices that may open memory of the device called `uuid`: that one, if it is among them.
  [[nodiscard]] std::vector<std::shared_ptr<Device>> devices_for(const std::string& uuid) const;
  /// Opens memory of another process on one of them. @returns the line if `entry` has it now, else null.
  static std::shared_ptr<detail::Descriptor> open_on_device(detail::TensorEntry& entry,
                                                            const std::vector<std::shared_ptr<Device>>& devices,
                                                            const std::string& uuid, int memory,
                                                            std::shared_ptr<detail::Descriptor> line);

  const std::optional<TensorLinks> links_;
  const std::shared_ptr<detail::TensorTable> table_;
  // For start and end.
  std::mutex mutex_;
  bool started_ = false;
  bool closed_ = false;
  std::unique_ptr<BulkServer> server_;
  std::unique_ptr<BulkClient> client_;
  std::thread keeper_;
  // Not that for start and end, which waits for those who fetch.
  mutable std::mutex devices_mutex_;
  std::vector<std::shared_ptr<Device>> devices_;
};

} // namespace gpuactors
