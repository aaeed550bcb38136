#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "millrace/ordering/ledger.hpp"
#include "ordering/epoch_log.hpp"
#include "ordering/marker_count.hpp"
#include "ordering/numbered_ring.hpp"
#include "ordering/shared_frontier.hpp"

namespace millrace::ordering {

/** A published marker that is neither complete nor withdrawn. */
struct Published {
  Marker marker = 0;
  MarkerToken token = 0;
  std::uint64_t serial = 0;
  Point implied;      // a second point that the marker covers; an alias there names the marker
  Frontier snapshot;  // the points that a waiter joins
};

/** A number that a marker of another stream covers. */
struct Alias {
  Marker marker = 0;
  Point recorded;
};

enum class Phase : unsigned char { vacant, open, closed };

/**
 * The state of one stream (the tenant). It becomes vacant only when all work of every tenant so far
 * is complete.
 */
struct Slot {
  static constexpr Marker kNever = std::numeric_limits<Marker>::max();  // was never blocking

  // Written under the ledger's mutex, read without it.
  std::atomic<std::uint32_t> generation{1};  // the tenant's; the next tenant's while vacant
  std::atomic<Phase> phase{Phase::vacant};
  std::atomic<Marker> settled{kNever};  // the epoch whose completion `completed` includes
  MarkerCount count;
  std::atomic<Marker> completed{0};
  SharedFrontier shared;  // a copy of `frontier` while the stream is open

  // The ledger's mutex guards these.
  StreamTraits traits;
  Frontier frontier;
  std::size_t kept_points = 0;       // size of `frontier` when complete points were last dropped
  NumberedRing<Published> markers;   // neither complete nor withdrawn
  std::vector<Published> withdrawn;  // the last few, by time of withdrawal
  NumberedRing<Alias> aliases;       // only for the legacy stream: markers of blocking streams
  EpochLog epochs;                   // only for a stream that was blocking at some time
  Marker waited_in = 0;              // the epoch in which it last waited while blocking
  bool is_watched = false;           // the group settles the slot when it is due

  [[nodiscard]] StreamId id(std::uint32_t slot) const noexcept { return {slot, generation.load()}; }
};

}  // namespace millrace::ordering
