// Work of a stream as a CUDA graph.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/cuda/primary.hpp>

#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace gpuactors::cuda {

/// What else a backend has to know of a graph.
struct GraphNeeds {
  /// Products use the workspace of the backend, which they share with those of other streams.
  bool workspace = false;
  /// Kernels from source, which must stay loaded.
  std::unordered_map<void*, RuntimeKernel> kernels = {};
};

/// The graphs of one backend in the driver. The backend ends them, while the streams that they were captured from still
/// have their context; until then each may be dropped by whoever has it. Any thread.
class Executables {
public:
  explicit Executables(std::shared_ptr<Primary> primary) : primary_(std::move(primary)) {
    // nop
  }
  Executables(const Executables&) = delete;
  Executables& operator=(const Executables&) = delete;

  /// Makes one of `captured`. The primary context is current.
  Result<CUgraphExec> make(CUgraph captured);

  /// Queues one. The primary context is current.
  /// @returns `lease_expired` behind the end.
  Result<void> launch(CUgraphExec executable, CUstream stream);

  /// Destroys one, unless the end has: the driver keeps it while it runs.
  void drop(CUgraphExec executable) noexcept;

  /// Destroys all of them, and lets go of the primary context.
  void end() noexcept;

private:
  std::mutex mutex_;
  /// Null behind the end. Guarded by `mutex_`, as what follows.
  std::shared_ptr<Primary> primary_;
  std::set<CUgraphExec> all_;
};

/// A graph that the driver can launch.
class CudaGraph final : public BackendGraph {
public:
  /// Makes one of what was captured, and takes `captured`. The primary context is current.
  static Result<std::shared_ptr<CudaGraph>> make(Primary& primary, std::shared_ptr<Executables> executables,
                                                 CUgraph captured, GraphNeeds needs);

  CudaGraph(std::shared_ptr<Executables> executables, CUgraphExec executable, std::size_t operations, GraphNeeds needs)
    : executables_(std::move(executables)), executable_(executable), operations_(operations), needs_(std::move(needs)) {
    // nop
  }
  ~CudaGraph() override {
    executables_->drop(executable_);
  }

  [[nodiscard]] std::size_t operations() const noexcept override {
    return operations_;
  }

  [[nodiscard]] const GraphNeeds& needs() const noexcept {
    return needs_;
  }

  /// Queues it. The primary context is current.
  Result<void> launch(CUstream stream) {
    return executables_->launch(executable_, stream);
  }

private:
  std::shared_ptr<Executables> executables_;
  /// Null if it has no operations.
  CUgraphExec executable_;
  std::size_t operations_;
  GraphNeeds needs_;
};

/// Lets the driver capture what is queued on `stream`. No thread is refused other calls meanwhile, this one neither
/// (events of other streams, memory that is freed): what cannot be part of a graph is refused before. The primary
/// context is current.
Result<void> begin_capture(Primary& primary, CUstream stream);

/// Ends that. @returns what was captured, to be given to `CudaGraph::make`.
Result<CUgraph> end_capture(Primary& primary, CUstream stream);

} // namespace gpuactors::cuda
