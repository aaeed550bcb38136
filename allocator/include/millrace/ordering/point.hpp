#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace millrace {

/**
 * @brief Identifies a stream within Millrace: a slot, and the generation of the stream in it.
 *
 * Drivers reuse the handles of destroyed streams. An id is never reused: the next stream in the
 * slot has another generation, so a point on a destroyed stream cannot be mistaken for a point on
 * its successor.
 */
struct StreamId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< 0: no stream

  /** @brief Returns whether the id refers to a stream that existed at some time. */
  [[nodiscard]] constexpr bool valid() const noexcept { return generation != 0; }
  friend constexpr auto operator<=>(const StreamId&, const StreamId&) = default;
  friend constexpr bool operator==(const StreamId& a, const StreamId& b) noexcept {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);  // one comparison
  }
};

/** @brief The number of an event on its stream, from 1. The value 0 is before all work. */
using Marker = std::uint64_t;

/**
 * @brief All work that is enqueued on `stream` before marker number `marker` is recorded there.
 *
 * The marker need not exist yet: a free carries the number of the *next* marker.
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
