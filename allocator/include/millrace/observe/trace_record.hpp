#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace {

/** @brief A device of an allocator, for `write_trace`. */
struct RecordedMemory {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;  ///< memory of the device
  std::string name;
  std::function<std::string(StreamId)> stream_name;
};

/**
 * @brief Writes what an allocator did, in Millrace's own trace format.
 *
 * Times are positions in the trace. Of the order of streams it has what a reuse of memory depends
 * on: from where on each stream was ordered after each free, and from where on the free was known
 * to be complete. Such a mark is written where the first stream waits for it, which is at or after
 * the place where it was made.
 */
void write_trace(const AllocationTrace& trace, const RecordedMemory& memory,
                 trace::TraceSink& sink);

}  // namespace millrace
