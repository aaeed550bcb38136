#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/front.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/** @brief The data of a request that a front needs. Its owner is its first user. */
struct PlainRequest {
  std::size_t requested;
  std::size_t bytes;  // rounded
  StreamRef owner;
  Tag tag;
  Marker next;  // the owner's next marker
};

/** @brief Whether a front kept a freed block. */
enum class Kept : std::uint8_t {
  no,
  yes,
  ask,     // ask it again under the lock
  marked,  // claimed, with its points; to be freed under the lock
};

/** @brief The data of a request that a search needs. */
struct Request : PlainRequest {
  bool small;
  StreamRef user;
  StreamId lane;  // the lane that is searched first
  Marker next_of_user;
  Front* front = nullptr;  // the front that served its lane when the request began, if any
  bool pressed = false;    // under pressure: also splits blocks that are kept for other streams
};

}  // namespace millrace
