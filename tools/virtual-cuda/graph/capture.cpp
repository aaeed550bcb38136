#include "graph/capture.hpp"

#include <algorithm>
#include <utility>

namespace millrace::virtual_cuda {
namespace {

// Captures in progress. Guarded by the engine's lock.
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

void join(CUstream_st& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.capture_tails.clear();
  capture->streams.push_back(&stream);
}

void add_tails(CUstream_st& stream, const std::vector<cudaGraphNode_t>& nodes) {
  for (const cudaGraphNode_t node : nodes)
    if (std::find(stream.capture_tails.begin(), stream.capture_tails.end(), node) ==
        stream.capture_tails.end())
      stream.capture_tails.push_back(node);
}

using Nodes = std::set<const CUgraphNode_st*>;

/** These nodes and all their predecessors. */
Nodes with_all_before(Nodes seen) {
  std::vector<const CUgraphNode_st*> open(seen.begin(), seen.end());
  while (!open.empty()) {
    const CUgraphNode_st* const node = open.back();
    open.pop_back();
    for (const cudaGraphNode_t earlier : node->after)
      if (seen.insert(earlier).second) open.push_back(earlier);
  }
  return seen;
}

bool captured_in(const CUstream_st& stream, const Nodes& nodes) {
  return std::all_of(stream.capture_tails.begin(), stream.capture_tails.end(),
                     [&](const cudaGraphNode_t tail) { return nodes.contains(tail); });
}

/** Whether the origin's last nodes are ordered after all nodes of the other streams. */
bool joined(const Capture& capture) {
  const Nodes seen =
      with_all_before({capture.origin->capture_tails.begin(), capture.origin->capture_tails.end()});
  return std::all_of(capture.streams.begin(), capture.streams.end(),
                     [&](const CUstream_st* other) { return captured_in(*other, seen); });
}

/** Whether the last nodes of the other streams are ordered after all nodes of `stream`. */
bool handed_over(const Capture& capture, const CUstream_st& stream) {
  Nodes tails;
  for (const CUstream_st* const other : capture.streams)
    if (other != &stream) tails.insert(other->capture_tails.begin(), other->capture_tails.end());
  return captured_in(stream, with_all_before(std::move(tails)));
}

void leave(const std::shared_ptr<Capture>& capture) {
  for (CUstream_st* const stream : capture->streams) {
    stream->capture.reset();
    stream->capture_tails.clear();
  }
  std::erase(captures(), capture);
  runtime().engine.unhold();
}

}  // namespace

cudaError_t submit(Lock& lock, CUstream_st& stream, Work work,
                   const std::vector<OperationRef>& also_after, OperationRef* made) {
  if (const cudaError_t error = check_implicit(stream); error != cudaSuccess) return error;
  if (stream.capture != nullptr) {
    if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    const cudaGraphNode_t node = stream.capture->graph->add(std::move(work), stream.capture_tails);
    stream.capture_tails = {node};
    return cudaSuccess;
  }
  enqueue(lock, stream, std::move(work), also_after, made);
  return cudaSuccess;
}

cudaError_t check_implicit(CUstream_st& stream, bool invalidate) {
  if (stream.role != CUstream_st::Role::legacy || captures().empty()) return cudaSuccess;
  bool found = false;
  for (const CUstream_st* const other : runtime().gpus[stream.device]->streams) {
    if (other->capture == nullptr || !other->blocking()) continue;
    other->capture->invalid = other->capture->invalid || invalidate;
    found = true;
  }
  return found ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

cudaError_t check_unsafe(Lock&) {
  const Thread& thread = *this_thread;
  bool found = false;
  for (const auto& capture : captures()) {
    if (thread.capture_mode == cudaStreamCaptureModeRelaxed) continue;
    const bool own = capture->thread == thread.id && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool global = thread.capture_mode == cudaStreamCaptureModeGlobal &&
                        capture->mode == cudaStreamCaptureModeGlobal;
    if (!own && !global) continue;
    capture->invalid = true;
    found = true;
  }
  return found ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t check_wait(CUstream_st& stream) {
  if (const cudaError_t error = check_implicit(stream); error != cudaSuccess) return error;
  if (stream.capture == nullptr) return cudaSuccess;
  stream.capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode,
                          std::shared_ptr<Graph> graph, std::vector<cudaGraphNode_t> after) {
  if (stream.role == CUstream_st::Role::legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  auto capture = std::make_shared<Capture>();
  if (graph != nullptr) {
    capture->destination = handle_of(graph.get());
    capture->graph = std::move(graph);
  } else {
    capture->graph = std::make_shared<Graph>();
  }
  capture->mode = mode;
  capture->id = ++runtime().capture_ids;
  capture->thread = this_thread->id;
  capture->origin = &stream;
  join(stream, capture);
  stream.capture_tails = std::move(after);
  captures().push_back(std::move(capture));
  runtime().engine.hold();
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != this_thread->id)
    return cudaErrorStreamCaptureWrongThread;
  const bool unjoined = !capture->invalid && (capture->lost_work || !joined(*capture));
  leave(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (unjoined) return cudaErrorStreamCaptureUnjoined;
  *graph = capture->destination != nullptr ? capture->destination : keep_graph(capture->graph);
  return cudaSuccess;
}

void abandon_capture(CUstream_st& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == &stream) {
    capture->invalid = true;
    leave(capture);
  } else {
    capture->lost_work = capture->lost_work || !handed_over(*capture, stream);
    std::erase(capture->streams, &stream);
  }
}

void record_captured(CUevent_st& event, CUstream_st& stream) {
  event.capture = stream.capture;
  event.captured_nodes = stream.capture_tails;
}

cudaError_t wait_captured(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture != nullptr && stream.capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (event.capture == nullptr) {
    // The graph cannot wait for work outside of it.
    if (!event.recorded) return cudaSuccess;
    stream.capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  const bool under_way =
      std::find(captures().begin(), captures().end(), event.capture) != captures().end();
  if (!under_way || event.capture->invalid) return cudaErrorCapturedEvent;
  if (stream.role == CUstream_st::Role::legacy) {
    event.capture->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream.capture == nullptr) {
    join(stream, event.capture);
  } else if (stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  add_tails(stream, event.captured_nodes);
  return cudaSuccess;
}

}  // namespace millrace::virtual_cuda
