#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace millrace {

/**
 * @brief A stream as Millrace knows it: a slot, and which tenant of that slot.
 *
 * Drivers reuse the handles of destroyed streams. An id is never reused: the slot's next tenant
 * has another generation, so a point on a dead stream can not be mistaken for one on its successor.
 */
struct StreamId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< 0: no stream

  [[nodiscard]] constexpr bool valid() const noexcept { return generation != 0; }
  friend constexpr auto operator<=>(const StreamId&, const StreamId&) = default;
};

/** @brief The number of an event on its stream, counted from 1. 0 lies before all work. */
using Marker = std::uint64_t;

/**
 * @brief "All work enqueued on `stream` before its marker number `marker` was recorded."
 *
 * The marker need not exist yet: a free carries the number of the *next* one.
 */
struct Point {
  StreamId stream;
  Marker marker = 0;

  friend constexpr auto operator<=>(const Point&, const Point&) = default;
};

}  // namespace millrace

template <>
struct std::hash<millrace::StreamId> {
  std::size_t operator()(const millrace::StreamId& id) const noexcept {
    return std::hash<std::uint64_t>{}(std::uint64_t{id.generation} << 32 | id.slot);
  }
};
