#pragma once

#include <cstddef>

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
