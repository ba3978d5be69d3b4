// Graphs of a lease's work.
#include <gpuactors/device/cuda/backend.hpp>

#include <utility>

namespace gpuactors::cuda {

Result<void> CudaBackend::begin_capture(StreamHandle stream) {
  GPUACTORS_TRY(shared_.primary->alive());
  const Current current{*shared_.primary};
  auto* const captured = static_cast<CUstream>(stream.native);
  if (captured_ != nullptr)
    return fail(Errc::invalid_argument, "a stream of this context is being captured already");
  // Else a product of another stream would mark this one meanwhile.
  if (product_stream_ == captured && !product_marked_)
    GPUACTORS_TRY(mark_products());
  if (before_capture_ == nullptr) {
    GPUACTORS_LET(made, partition_.make_event());
    before_capture_ = made;
  }
  // What is freed meanwhile is freed there.
  GPUACTORS_TRY(locked_service());
  // Nor may a handle of cuBLAS be made meanwhile.
  if (workspace_ != nullptr) {
    GPUACTORS_LET(handle, shared_.products->reserve());
    captured_handle_ = std::move(handle);
  }
  const std::lock_guard guard{free_mutex_};
  auto begun = check(driver().event_record(before_capture_, captured), "cuEventRecord");
  if (begun)
    begun = cuda::begin_capture(*shared_.primary, captured);
  if (begun)
    captured_ = captured;
  else
    captured_handle_ = nullptr;
  captured_needs_ = {};
  return begun;
}

Result<std::shared_ptr<BackendGraph>> CudaBackend::end_capture(StreamHandle stream) {
  const Current current{*shared_.primary};
  auto* const captured = static_cast<CUstream>(stream.native);
  if (captured_ != captured)
    return fail(Errc::invalid_argument, "the stream is not being captured");
  auto needs = std::exchange(captured_needs_, {});
  captured_handle_ = nullptr;
  auto ended = [&] {
    const std::lock_guard guard{free_mutex_};
    captured_ = nullptr;
    return cuda::end_capture(*shared_.primary, captured);
  }();
  GPUACTORS_LET(what, std::move(ended));
  GPUACTORS_LET(graph, CudaGraph::make(*shared_.primary, executables_, what, std::move(needs)));
  return graph;
}

Result<void> CudaBackend::launch(const std::shared_ptr<BackendGraph>& graph, StreamHandle stream) {
  const Current current{*shared_.primary};
  GPUACTORS_TRY(shared_.primary->alive());
  auto own = std::dynamic_pointer_cast<CudaGraph>(graph);
  if (own == nullptr)
    return fail(Errc::invalid_argument, "the graph was captured on another kind of device");
  auto* const on = static_cast<CUstream>(stream.native);
  const bool has_products = own->needs().workspace;
  if (has_products)
    GPUACTORS_TRY(follow_products(on));
  GPUACTORS_TRY(own->launch(on));
  keep(on, own->needs());
  if (!has_products)
    return {};
  product_stream_ = on;
  product_marked_ = false;
  if (streams_.size() == 1)
    return {};
  // As behind a product (`gemm`): it is queued, and a mark that fails is tried again when another stream needs it.
  auto marked = mark_products();
  return shared_.primary->lost() ? marked : Result<void>{};
}

} // namespace gpuactors::cuda
