// Work of a stream as a CUDA graph.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/cuda/primary.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors::cuda {

/// What else a backend has to know of a graph.
struct GraphNeeds {
  /// Products use the workspace of the backend, which they share with those of other streams.
  bool workspace = false;
  /// Kernels from source, which must stay loaded.
  std::vector<RuntimeKernel> kernels = {};
};

/// A graph that the driver can launch. Its backend closes it at its end, while the streams that it was captured from
/// still have their context.
class CudaGraph final : public BackendGraph {
public:
  /// Makes one of what was captured, and takes `captured`. The primary context is current.
  static Result<std::shared_ptr<CudaGraph>> make(std::shared_ptr<Primary> primary, CUgraph captured, GraphNeeds needs);

  CudaGraph(std::shared_ptr<Primary> primary, CUgraphExec executable, std::size_t operations, GraphNeeds needs)
    : primary_(std::move(primary)), executable_(executable), operations_(operations), needs_(std::move(needs)) {
    // nop
  }
  ~CudaGraph() override;

  [[nodiscard]] std::size_t operations() const noexcept override {
    return operations_;
  }

  [[nodiscard]] const GraphNeeds& needs() const noexcept {
    return needs_;
  }

  /// Queues it. The primary context is current.
  Result<void> launch(CUstream stream);

  /// Destroys it in the driver; later launches fail. Any thread.
  void close() noexcept;

private:
  std::shared_ptr<Primary> primary_;
  std::mutex mutex_;
  /// Null once it is closed. Guarded by `mutex_`.
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
