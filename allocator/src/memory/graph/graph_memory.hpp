#pragma once

#include <cstddef>

#include "memory/few.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief The functions of the general allocator that private pools call, without holding their own
 *        locks.
 */
class GraphMemory {
 public:
  virtual ~GraphMemory() = default;

  /** @brief How hard to look for memory. */
  enum class Effort {
    quiet,    ///< queries no event: a capture may be going on
    ask,      ///< polls the device before it grows
    pressed,  ///< also does all that a request does before it fails
  };

  /**
   * @brief Takes memory that is complete on the device, in the name of `pool`, a nominal stream.
   * @return nullptr if this effort finds none
   * @throws out_of_memory if the effort is `pressed` and nothing serves
   */
  [[nodiscard]] virtual void* take(std::size_t bytes, StreamRef pool, Effort effort) = 0;

  /**
   * @brief Frees memory from `take`, or a block that its user has freed and that graphs used until
   *        now. Makes no driver call.
   * @param points  what must come before its next use
   */
  virtual void give_back(void* base, const PointSet& points) = 0;

  /**
   * @brief Closes the stream's front, so each request of the stream checks whether a pool serves
   *        it.
   */
  virtual void close_front(StreamId stream) = 0;
};

}  // namespace millrace
