#pragma once

#include "millrace/memory/allocator.hpp"
#include "millrace/observe/timeline.hpp"

namespace millrace {

/** @brief Watches what a run allocates, from here on; what is there when this goes, with which the
 *         timeline stops, is what the run leaves behind. */
class Recording {
 public:
  /** @param timeline  attached before; null: nothing is recorded
   *  @param batches   the same as `memory`, or another */
  Recording(Timeline* timeline, Allocator& memory, Allocator& batches, StreamRef main);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Timeline* timeline_;
};

}  // namespace millrace
