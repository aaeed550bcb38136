#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/** @brief A capture that is under way: streams that write their work into one graph. */
struct Capture {
  std::shared_ptr<Graph> graph;
  cudaGraph_t destination = nullptr;  ///< the program's graph that it writes to, if there is one
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::uint64_t id = 0;
  std::uint64_t thread = 0;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  bool invalid = false;
  bool lost_work = false;  // of a stream that was destroyed before it was joined
};

/**
 * @brief Enqueues `work` on `stream`, or puts it into the graph that the stream is captured to.
 * @param made  where the operation goes before it may run; stays as it is in a capture
 */
cudaError_t submit(Lock& lock, CUstream_st& stream, Work work,
                   const std::vector<OperationRef>& also_after = {}, OperationRef* made = nullptr);

/**
 * @brief Whether work may be enqueued on `stream` now. Work on the legacy stream may not while a
 *        blocking stream is captured, and that capture becomes invalid.
 */
cudaError_t check_implicit(CUstream_st& stream, bool invalidate = true);
/** @brief Whether a call that CUDA names potentially unsafe may be made; it may end captures. */
cudaError_t check_unsafe(Lock& lock);
/** @brief The host cannot wait for a stream that is captured; the capture becomes invalid. */
cudaError_t check_wait(CUstream_st& stream);

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode,
                          std::shared_ptr<Graph> graph, std::vector<cudaGraphNode_t> after);
cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph);

/**
 * @brief A stream that is captured is destroyed. Its capture is lost, and ends if it began there;
 *        it goes on if other streams come after all that this one captured.
 */
void abandon_capture(CUstream_st& stream);

/** @brief A record on a captured stream: the event stands for the nodes so far. */
void record_captured(CUevent_st& event, CUstream_st& stream);
/** @brief A wait where the stream is captured, or the event was. */
cudaError_t wait_captured(CUstream_st& stream, CUevent_st& event);

}  // namespace millrace::virtual_cuda
