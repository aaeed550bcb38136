#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/front.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/** @brief What a front has to know of a request of one stream. */
struct PlainRequest {
  std::size_t requested;
  std::size_t bytes;  // rounded
  StreamRef owner;
  Tag tag;
  Marker next;  // of the owner: its next marker
};

/** @brief Whether a front kept a freed block. */
enum class Kept : std::uint8_t {
  no,
  yes,
  ask,     // again, under the lock
  marked,  // it is claimed and has its points: it is to be taken back under the lock
};

/** @brief What a search has to know of a request. */
struct Request : PlainRequest {
  bool small;
  StreamRef user;
  StreamId lane;  // where it looks first
  Marker next_of_user;
  Front* front = nullptr;  // that serves its lane, if one did when it began
  bool pressed = false;    // nothing else serves: blocks that are kept for others are carved too
};

}  // namespace millrace
