// Graphs of the fake driver: what is captured from a stream, and what must not be done with that stream meanwhile.
#pragma once

#include <device/fake_cuda/code.hpp>

namespace gpuactors::fake {

CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult stream_end_capture(CUstream stream, CUgraph* graph);
CUresult graph_get_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count);
CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags);
CUresult graph_launch(CUgraphExec executable, CUstream stream);
CUresult graph_exec_destroy(CUgraphExec executable);
CUresult graph_destroy(CUgraph graph);

CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode);

/// Ends the process if the call would break a capture that another library has under way in the default mode: with
/// FAKE_CUDA_CAPTURES there is one all the time.
void need_relaxed(const char* api);

/// Ends the process if the stream is captured: the real driver would break the capture off, or make the call a part of
/// the graph.
void need_no_capture(CUstream stream, const char* api);

/// To be told of each kernel that is launched: a graph needs those that were captured.
void note_captured(CUstream stream, const LoadedKernel* kernel);

/// Whether this thread captures a stream.
bool is_capturing();

/// Whether there are graphs that were captured in that green context.
bool has_graphs_of(const void* context);

} // namespace gpuactors::fake
