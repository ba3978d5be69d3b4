// Capturing, instantiating and launching CUDA graphs.
#include <gpuactors/device/cuda/graph.hpp>

#include <utility>

namespace gpuactors::cuda {

Result<std::shared_ptr<CudaGraph>> CudaGraph::make(std::shared_ptr<Primary> primary, CUgraph captured,
                                                   GraphNeeds needs) {
  const auto& driver = primary->driver();
  std::size_t nodes = 0;
  CUgraphExec executable = nullptr;
  auto made = primary->check(driver.graph_get_nodes(captured, nullptr, &nodes), "cuGraphGetNodes");
  if (made && nodes > 0)
    made = primary->check(driver.graph_instantiate(&executable, captured, 0), "cuGraphInstantiateWithFlags",
                          Errc::launch_failed);
  (void)driver.graph_destroy(captured);
  GPUACTORS_TRY(std::move(made));
  return std::make_shared<CudaGraph>(std::move(primary), executable, nodes, std::move(needs));
}

CudaGraph::~CudaGraph() {
  close();
}

Result<void> CudaGraph::launch(CUstream stream) {
  const std::lock_guard guard{mutex_};
  if (executable_ == nullptr)
    return fail(Errc::lease_expired, "the context of this graph has ended");
  return primary_->check(primary_->driver().graph_launch(executable_, stream), "cuGraphLaunch", Errc::launch_failed);
}

void CudaGraph::close() noexcept {
  const std::lock_guard guard{mutex_};
  auto* const gone = std::exchange(executable_, nullptr);
  if (gone == nullptr)
    return;
  const Current current{*primary_};
  (void)primary_->driver().graph_exec_destroy(gone);
}

Result<void> begin_capture(Primary& primary, CUstream stream) {
  return primary.check(primary.driver().stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                       "cuStreamBeginCapture");
}

Result<CUgraph> end_capture(Primary& primary, CUstream stream) {
  CUgraph captured = nullptr;
  auto ended = primary.check(primary.driver().stream_end_capture(stream, &captured), "cuStreamEndCapture");
  if (ended && captured != nullptr)
    return captured;
  if (ended)
    return fail(Errc::unavailable, "the capture was broken off by another call of the process: capture again");
  return fail(ended.error());
}

} // namespace gpuactors::cuda
