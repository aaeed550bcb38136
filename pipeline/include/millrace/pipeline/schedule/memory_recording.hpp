#pragma once

#include "millrace/memory/allocator.hpp"
#include "millrace/observe/timeline.hpp"

namespace millrace {

/**
 * @brief Watches the allocators of a run, from its construction on.
 *
 * Its destructor takes the last samples and stops the timeline: they show what the run leaves
 * behind.
 */
class MemoryRecording {
 public:
  /** @param timeline  attached before; null: nothing is recorded
   *  @param batches   the same as `memory`, or another */
  MemoryRecording(Timeline* timeline, Allocator& memory, Allocator& batches, StreamRef main);
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

 private:
  Timeline* timeline_;
};

}  // namespace millrace
