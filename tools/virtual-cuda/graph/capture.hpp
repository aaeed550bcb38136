#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/** @brief A capture in progress. Its streams write their work into one graph. */
struct Capture {
  std::shared_ptr<Graph> graph;
  cudaGraph_t destination = nullptr;  ///< the program's graph that gets the nodes; may be null
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::uint64_t id = 0;
  std::uint64_t thread = 0;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  bool invalid = false;
  bool lost_work = false;  // a stream was destroyed before it was joined
};

/**
 * @brief Enqueues `work` on `stream`. If the stream is captured, adds a node to the graph instead.
 * @param made  receives the operation before it may run; unchanged in a capture
 */
cudaError_t submit(Lock& lock, CUstream_st& stream, Work work,
                   const std::vector<OperationRef>& also_after = {}, OperationRef* made = nullptr);

/**
 * @brief Whether work may be enqueued on `stream` now. Work on the legacy stream is an error while
 *        a blocking stream is captured. With `invalidate`, that capture becomes invalid.
 */
cudaError_t check_implicit(CUstream_st& stream, bool invalidate = true);
/** @brief Whether a potentially unsafe call (CUDA's term) is allowed. If not, the captures that
 *         forbid it become invalid. */
cudaError_t check_unsafe(Lock& lock);
/** @brief Whether the host may wait for `stream`. If not, the stream's capture becomes invalid. */
cudaError_t check_wait(CUstream_st& stream);

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode,
                          std::shared_ptr<Graph> graph, std::vector<cudaGraphNode_t> after);
cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph);

/**
 * @brief Takes a stream that is being destroyed out of its capture. A capture that began on the
 *        stream ends. Any other capture fails at its end, unless other streams are ordered after
 *        all nodes of this stream.
 */
void abandon_capture(CUstream_st& stream);

/** @brief Records an event on a captured stream. The event represents the nodes so far. */
void record_captured(CUevent_st& event, CUstream_st& stream);
/** @brief Makes a stream wait for an event, if the stream is captured or the event was. */
cudaError_t wait_captured(CUstream_st& stream, CUevent_st& event);

}  // namespace millrace::virtual_cuda
