#pragma once

#include "millrace/memory/allocator.hpp"
#include "millrace/observe/timeline.hpp"

namespace millrace {

/**
 * @brief Lets a timeline watch the allocators of a run while this object lives.
 *
 * The destructor takes the last samples, which show the memory that the run leaves, and stops the
 * timeline.
 */
class MemoryRecording {
 public:
  /** @param timeline  must be attached already; nullptr: nothing is recorded
   *  @param memory    the allocator of device memory
   *  @param batches   the allocator of batches; may be the same as `memory`
   *  @param main      the stream for which stranded bytes are recorded */
  MemoryRecording(Timeline* timeline, Allocator& memory, Allocator& batches, StreamRef main);
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

 private:
  Timeline* timeline_;
};

}  // namespace millrace
