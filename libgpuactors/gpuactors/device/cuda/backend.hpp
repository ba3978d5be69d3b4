// CudaBackend: one lease's part of a CUDA device.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/cuda/closer.hpp>
#include <gpuactors/device/cuda/graph.hpp>
#include <gpuactors/device/cuda/images.hpp>
#include <gpuactors/device/cuda/partition.hpp>
#include <gpuactors/device/cuda/pinned_pool.hpp>
#include <gpuactors/device/cuda/poller.hpp>
#include <gpuactors/device/cuda/pool.hpp>
#include <gpuactors/device/cuda/pool_list.hpp>
#include <gpuactors/device/cuda/products.hpp>
#include <gpuactors/device/cuda/runtime_kernels.hpp>
#include <gpuactors/device/detail/serving_device.hpp>
#include <gpuactors/device/quota.hpp>

#include <atomic>
#include <map>
#include <unordered_map>
#include <utility>

namespace gpuactors::cuda {

/// What all backends of a device share; outlives them.
struct Shared {
  std::shared_ptr<Primary> primary;
  std::shared_ptr<Poller> poller;
  std::shared_ptr<Split> split;
  std::shared_ptr<PinnedPool> pinned;
  std::shared_ptr<Products> products;
  std::shared_ptr<Closer> closer;
  std::shared_ptr<PoolList> pools;
  Images& images;
  RuntimeKernels& runtime_kernels;
  int sms = 0;
};

/// Streams, pool and kernels of one lease. Memory, events and kernels are the primary context's, which
/// is current while we call; the streams say which SMs the work runs on (partition.hpp).
class CudaBackend final : public BasicBackend, private Keeper {
public:
  CudaBackend(Shared shared, BackendOptions options);
  ~CudaBackend() override;

  /// The second half of construction, which can fail.
  Result<void> open();

  [[nodiscard]] ContextGrant granted() const override;

  [[nodiscard]] bool lost() const noexcept override {
    return shared_.primary->lost();
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
  Result<void> fetch(void* host, const void* source, std::size_t bytes, StreamHandle stream) override;
  Result<void> copy_from(Device& other, void* target, const void* source, std::size_t bytes,
                         StreamHandle stream) override;
  Result<void> fill(void* target, std::uint8_t value, std::size_t bytes, StreamHandle stream) override;
  [[nodiscard]] std::size_t footprint(std::size_t bytes) const noexcept override;

  Result<std::shared_ptr<void>> host_memory(std::size_t bytes) override {
    GPUACTORS_TRY(shared_.primary->alive());
    return shared_.pinned->take(bytes);
  }

  Result<void> attach(std::uint64_t footprint) override;
  void detach(std::uint64_t footprint) noexcept override;
  void let_go(std::shared_ptr<SharedMemory> memory, std::span<const EventHandle> readers) noexcept override;
  void settle() noexcept override;

  Result<void> launch(const KernelInfo& kernel, const KernelExtent& extent, const void* pack, std::size_t pack_bytes,
                      StreamHandle stream) override;
  Result<void> gemm(const Gemm& product, StreamHandle stream) override;
  Result<void> begin_capture(StreamHandle stream) override;
  Result<std::shared_ptr<BackendGraph>> end_capture(StreamHandle stream) override;
  Result<void> launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) override;
  Result<std::shared_ptr<void>> make_current() override;
  Result<RuntimeKernel> compile(const KernelSource& source) override;
  Result<void> launch(const RuntimeKernel& kernel, const LaunchShape& shape, std::span<const KernelArgument> arguments,
                      StreamHandle stream) override;

private:
  /// The driver's handle of `kernel`, whose code is loaded when it is first asked for.
  Result<CUkernel> find(const KernelInfo& kernel);
  /// Libraries of kernels are asked beside any context: whether one of their errors means that this one is lost, that
  /// has to be asked.
  template <class T>
  Result<T> settled(Result<T> outcome) {
    if (outcome || outcome.error().code() != Errc::context_lost)
      return outcome;
    GPUACTORS_TRY(shared_.primary->probe());
    return fail(Errc::launch_failed, outcome.error().message());
  }
  /// Lets blocks of `kernel` have that much dynamic shared memory, beside what it declares itself.
  /// @param number `RuntimeKernel::Loaded::number`.
  Result<void> allow_shared(CUkernel kernel, std::uint64_t number, std::string_view name, unsigned bytes);
  /// Kernels from source, by their handles.
  using Launched = std::unordered_map<void*, RuntimeKernel>;
  /// Keeps a kernel from source until the stream is waited for or has told that it is done, or with the graph that is
  /// captured.
  void keep(CUstream stream, const RuntimeKernel& kernel);
  /// Likewise the kernels of a graph that was launched.
  void keep(CUstream stream, const GraphNeeds& needs);
  /// Keeps what was taken and may run on.
  void keep(CUstream stream, Launched kernels);
  /// Takes out what was launched on the stream so far.
  Launched take_launched(CUstream stream);
  /// The service stream, made when it is first needed: hardware has queues for few. The mutex for `free` is held.
  Result<CUstream> service();
  Result<CUstream> locked_service();
  /// Lets the service stream wait for all work so far, and for `readers`. The mutex for `free` is held.
  /// @returns the service stream; one of the user's, which then waits for the others, where there cannot be one.
  CUstream gather(std::span<const EventHandle> readers) noexcept;
  /// Memory of the pool, if need be after a wait for what is freed behind work, and of what other pools only keep.
  Result<void*> allocate_from_pool(std::size_t bytes, CUstream stream);
  /// Lets a new stream wait for the work of the only one from before, if memory was freed behind that without more ado:
  /// an allocation there has it at once, and this stream may use it. The mutex for `free` is held.
  Result<void> follow_frees(CUstream made);
  /// Looks whether the stream's work is done until it is, or takes long.
  void look_for_end(CUstream stream);
  /// Waits until what was freed is free.
  Result<void> wait_for_frees();
  /// What is on its way out, until the closer drops it.
  struct Going;
  /// Waits for all that is on its way out.
  void drain() noexcept;
  bool give_back() noexcept override;
  /// Lets the driver see how far streams have come: it gives no memory back behind work that nobody has seen done.
  /// @returns whether all that was freed is behind such work.
  bool see_frees() noexcept;
  /// Whether work of `stream` is under way. If not, the driver has seen all its work done. `free_mutex_` is held.
  /// @param enough until then, it may look at a mark that it has made.
  bool is_busy(CUstream stream, CUevent mark, TimePoint enough) noexcept;
  /// Shared memory and that of other libraries are beside what the pool has: together they stay within the limit. The
  /// mutex for that is held.
  void keep_beside() noexcept;
  /// Makes what products need, at the first one, which runs on `stream`.
  Result<void> prepare_products(CUstream stream);
  /// Where products of `stream` run, and in what memory.
  [[nodiscard]] Products::Place product_place(StreamHandle stream) const;
  /// Lets products on `stream` come after those of another stream.
  Result<void> follow_products(CUstream stream);
  /// Marks where products on their stream are done, or later.
  Result<void> mark_products();
  Result<void> allocate_workspace(CUstream stream);
  Result<void> check(CUresult result, const char* api, Errc otherwise = Errc::internal, std::string detail = {}) {
    return shared_.primary->check(result, api, otherwise, std::move(detail));
  }

  [[nodiscard]] const Driver& driver() const noexcept {
    return shared_.primary->driver();
  }

  Shared shared_;
  BackendOptions options_;
  Partition partition_;
  Events events_;
  MemoryPool pool_;
  /// For `free`, which any thread may call: guards the streams that exist, the event and the order of calls on the
  /// service stream.
  std::mutex free_mutex_;
  /// For what belongs to no stream of the user's. Null until it is needed.
  CUstream service_ = nullptr;
  std::vector<CUstream> streams_;
  CUevent passed_ = nullptr;
  /// Whether memory was freed since all streams were last seen to be done.
  bool has_freed_ = false;
  /// The only stream, if memory was freed on it while it was that and no mark is behind it yet.
  CUstream freed_on_ = nullptr;
  /// That mark, of the last such stream; null: there was none.
  CUevent freed_ = nullptr;
  /// Of shared memory that is attached or being let go of: so much less the pool keeps. Guarded by `keep_mutex_`.
  std::uint64_t shared_bytes_ = 0;
  /// The same of what other libraries allocate (`Quota::on_beside`).
  std::uint64_t beside_bytes_ = 0;
  std::mutex keep_mutex_;
  /// Blocks that were given to `let_go` and are not dropped yet.
  std::atomic<int> letting_go_{0};
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  /// The stream of the last product; null: none that is not done. All products share the workspace, so those of two
  /// streams take turns.
  CUstream product_stream_ = nullptr;
  /// Behind that product, if it is marked: on the only stream nobody asks.
  CUevent product_done_ = nullptr;
  bool product_marked_ = false;
  std::mutex launched_mutex_;
  /// Kernels from source that may run now, by the stream: they must not be unloaded. Guarded by its mutex.
  std::unordered_map<CUstream, Launched> launched_;
  /// The stream that is captured, or null. Changed by the backend's thread under `free_mutex_`.
  CUstream captured_ = nullptr;
  /// Behind what that stream had before. Made at the first capture.
  CUevent before_capture_ = nullptr;
  GraphNeeds captured_needs_;
  /// For the products of a graph, which must not make one; null where there are none.
  std::shared_ptr<cublasContext> captured_handle_;
  std::shared_ptr<Executables> executables_;
  /// Kernels that were launched, by image and name: without the lock of `Images`, which all contexts share.
  std::map<std::pair<const unsigned char*, const char*>, CUkernel> known_kernels_;
  struct AllowedShared {
    std::uint64_t number = 0;
    unsigned bytes = 0;
  };
  /// How much dynamic shared memory blocks of a kernel may have.
  std::unordered_map<CUkernel, AllowedShared> allowed_shared_;
};

} // namespace gpuactors::cuda
