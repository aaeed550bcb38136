#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace {

/** @brief A device of an allocator, for `write_trace`. */
struct RecordedMemory {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;  ///< memory of the device
  std::string name;
  std::function<std::string(StreamId)> stream_name;
  /// Marks in addition to the trace's marks, for a snapshot. Millrace's format has none.
  std::vector<AllocationTrace::Mark> marks{};
};

/**
 * @brief Writes an allocator's history in Millrace's own trace format.
 *
 * Times are positions in the trace. The output has only the part of the order of streams that a
 * reuse of memory depends on. For each free, that is the event from which on each other stream was
 * ordered after it, and the event from which on it was known to be complete. A marker is written
 * immediately before the first wait for it, which may be later than the place where it was
 * recorded.
 */
void write_trace(const AllocationTrace& trace, const RecordedMemory& memory,
                 trace::TraceSink& sink);

}  // namespace millrace
