#pragma once

#include <cstddef>

#include "memory/few.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/** @brief What private pools need of the general allocator. No call is made under a lock of theirs.
 */
class GraphMemory {
 public:
  virtual ~GraphMemory() = default;

  /** @brief How hard to look for memory. */
  enum class Effort {
    quiet,    ///< asks no event: a capture may be going on
    ask,      ///< polls the device first
    pressed,  ///< and does what any request does before it fails
  };

  /**
   * @brief Memory that the device has finished with, in the name of `pool`, a nominal stream.
   * @return nullptr if there is none without more effort
   * @throws out_of_memory if `pressed`, and nothing serves
   */
  [[nodiscard]] virtual void* take(std::size_t bytes, StreamRef pool, Effort effort) = 0;

  /**
   * @brief Frees what `take` gave, or a block that its user has freed and graphs used until now.
   *        Makes no driver call.
   * @param points  what must come before its next use
   */
  virtual void give_back(void* base, const PointSet& points) = 0;

  /** @brief The stream's requests take no short cut from now on. */
  virtual void close_front(StreamId stream) = 0;
};

}  // namespace millrace
