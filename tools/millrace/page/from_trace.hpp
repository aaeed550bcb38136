#pragma once

#include <map>
#include <span>
#include <string>

#include "millrace/experiment/run_recording.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The blocks, segments, streams and operations of a run of our own.
 *
 * For each block it finds the one that had the memory before, and why the reuse was safe.
 * @param recording  nullptr: there are no operations, and the run's clock counts events
 * @param streams    names of the trace's streams; others are called by number
 * @param steps      marks of the steps, each until the next one begins
 */
[[nodiscard]] PageRun page_run(const AllocationTrace& trace,
                               const experiment::RunRecording* recording,
                               const std::map<StreamId, std::string>& streams,
                               std::span<const AllocationTrace::Mark> steps = {});

}  // namespace millrace::cli
