#pragma once

#include <map>
#include <span>
#include <string>

#include "millrace/experiment/run_recording.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The blocks, segments, streams and operations of a run on Millrace's own allocators.
 *
 * For each block it finds the earlier block in the same memory, and why the reuse was safe.
 * @param recording  nullptr: the page has no operations, and its clock counts events
 * @param streams    names of the trace's streams; other streams are named by number
 * @param steps      marks of the steps; a step ends where the next one begins
 */
[[nodiscard]] PageRun page_run(const AllocationTrace& trace,
                               const experiment::RunRecording* recording,
                               const std::map<StreamId, std::string>& streams,
                               std::span<const AllocationTrace::Mark> steps = {});

}  // namespace millrace::cli
