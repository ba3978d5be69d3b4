// Capturing, instantiating and launching CUDA graphs.
#include <gpuactors/device/cuda/graph.hpp>

#include <utility>

namespace gpuactors::cuda {

Result<CUgraphExec> Executables::make(CUgraph captured) {
  const std::lock_guard guard{mutex_};
  CUgraphExec executable = nullptr;
  GPUACTORS_TRY(primary_->check(primary_->driver().graph_instantiate(&executable, captured, 0),
                                "cuGraphInstantiateWithFlags", Errc::launch_failed));
  all_.insert(executable);
  return executable;
}

Result<void> Executables::launch(CUgraphExec executable, CUstream stream) {
  const std::lock_guard guard{mutex_};
  if (primary_ == nullptr || !all_.contains(executable))
    return fail(Errc::lease_expired, "the context of this graph has ended");
  return primary_->check(primary_->driver().graph_launch(executable, stream), "cuGraphLaunch", Errc::launch_failed);
}

void Executables::drop(CUgraphExec executable) noexcept {
  const std::lock_guard guard{mutex_};
  if (primary_ == nullptr || all_.erase(executable) == 0)
    return;
  const Current current{*primary_};
  (void)primary_->driver().graph_exec_destroy(executable);
}

void Executables::end() noexcept {
  const std::lock_guard guard{mutex_};
  const auto primary = std::exchange(primary_, nullptr);
  if (primary == nullptr)
    return;
  const Current current{*primary};
  for (auto* executable : all_)
    (void)primary->driver().graph_exec_destroy(executable);
  all_.clear();
}

Result<std::shared_ptr<CudaGraph>> CudaGraph::make(Primary& primary, std::shared_ptr<Executables> executables,
                                                   CUgraph captured, GraphNeeds needs) {
  const auto& driver = primary.driver();
  std::size_t nodes = 0;
  Result<CUgraphExec> executable = nullptr;
  auto counted = primary.check(driver.graph_get_nodes(captured, nullptr, &nodes), "cuGraphGetNodes");
  if (counted && nodes > 0)
    executable = executables->make(captured);
  (void)driver.graph_destroy(captured);
  GPUACTORS_TRY(std::move(counted));
  GPUACTORS_LET(made, std::move(executable));
  return std::make_shared<CudaGraph>(std::move(executables), made, nodes, std::move(needs));
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
