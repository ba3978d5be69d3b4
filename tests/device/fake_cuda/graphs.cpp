// Capturing streams of the machine, and launching what was captured.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace gpuactors::fake {

namespace {

struct FakeGraph {
  std::shared_ptr<BackendGraph> work;
  /// The green context of the stream that it was captured from; null: the primary one.
  const void* context;
  std::set<const LoadedKernel*> kernels;
};

thread_local int captured_here = 0;

/// How a thread takes captures of others.
thread_local CUstreamCaptureMode mode_here = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct Captures {
  std::mutex mutex;
  /// With the kernels that were launched there.
  std::map<CUstream, std::set<const LoadedKernel*>> streams;
  /// That exist.
  std::set<FakeGraph*> executables;
};

Captures& captures() {
  static auto* one = new Captures;
  return *one;
}

} // namespace

CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode) {
  std::swap(*mode, mode_here);
  return CUDA_SUCCESS;
}

void need_relaxed(const char* api) {
  static const bool captures = std::getenv("FAKE_CUDA_CAPTURES") != nullptr;
  if (captures && mode_here != CU_STREAM_CAPTURE_MODE_RELAXED)
    misuse(std::string{api} + " by a thread that would break captures of others");
}

void need_no_capture(CUstream stream, const char* api) {
  const std::lock_guard guard{captures().mutex};
  if (captures().streams.count(stream) > 0)
    misuse(std::string{api} + " of a stream that is captured");
}

void note_captured(CUstream stream, const LoadedKernel* kernel) {
  const std::lock_guard guard{captures().mutex};
  if (const auto found = captures().streams.find(stream); found != captures().streams.end())
    found->second.insert(kernel);
}

CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  need_context("cuStreamBeginCapture");
  // Else calls of other threads would break it off, or this one's be refused: of events, of memory that is freed.
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    misuse("a capture that forbids other calls");
  if (const auto result = planned("cuStreamBeginCapture"); result != CUDA_SUCCESS)
    return result;
  if (!machine().backend->begin_capture(handle(stream)))
    return CUDA_ERROR_ILLEGAL_STATE;
  const std::lock_guard guard{captures().mutex};
  captures().streams[stream].clear();
  ++captured_here;
  return CUDA_SUCCESS;
}

CUresult stream_end_capture(CUstream stream, CUgraph* graph) {
  need_context("cuStreamEndCapture");
  std::set<const LoadedKernel*> kernels;
  {
    const std::lock_guard guard{captures().mutex};
    auto captured = captures().streams.extract(stream);
    if (captured.empty())
      return CUDA_ERROR_ILLEGAL_STATE;
    kernels = std::move(captured.mapped());
    --captured_here;
  }
  auto work = *machine().backend->end_capture(handle(stream));
  if (const auto result = planned("cuStreamEndCapture"); result != CUDA_SUCCESS)
    return result;
  *graph = reinterpret_cast<CUgraph>(new FakeGraph{std::move(work), green_of(stream), std::move(kernels)});
  ++live;
  return CUDA_SUCCESS;
}

CUresult graph_get_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  if (nodes != nullptr)
    misuse("nobody asks for nodes");
  *count = reinterpret_cast<const FakeGraph*>(graph)->work->operations();
  return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  need_context("cuGraphInstantiateWithFlags");
  if (const auto result = planned("cuGraphInstantiateWithFlags"); result != CUDA_SUCCESS)
    return result;
  auto* const made = new FakeGraph{*reinterpret_cast<const FakeGraph*>(graph)};
  *executable = reinterpret_cast<CUgraphExec>(made);
  ++live;
  const std::lock_guard guard{captures().mutex};
  captures().executables.insert(made);
  return CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec executable, CUstream stream) {
  need_context("cuGraphLaunch");
  need_own_stream(stream, "cuGraphLaunch");
  need_no_capture(stream, "cuGraphLaunch");
  if (const auto result = planned("cuGraphLaunch"); result != CUDA_SUCCESS)
    return result;
  const auto* const graph = reinterpret_cast<const FakeGraph*>(executable);
  if (graph->context != green_of(stream))
    misuse("a graph was launched in another context than its own");
  for (const auto* kernel : graph->kernels)
    need_loaded(kernel, "cuGraphLaunch");
  note_work(stream);
  return machine().backend->launch(graph->work, handle(stream)) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult graph_exec_destroy(CUgraphExec executable) {
  auto* const graph = reinterpret_cast<FakeGraph*>(executable);
  {
    const std::lock_guard guard{captures().mutex};
    if (captures().executables.erase(graph) == 0)
      misuse("a graph was destroyed twice");
  }
  delete graph;
  --live;
  return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  --live;
  return CUDA_SUCCESS;
}

bool is_capturing() {
  return captured_here > 0;
}

bool has_graphs_of(const void* context) {
  const std::lock_guard guard{captures().mutex};
  for (const auto* graph : captures().executables)
    if (graph->context == context)
      return true;
  return false;
}

} // namespace gpuactors::fake
