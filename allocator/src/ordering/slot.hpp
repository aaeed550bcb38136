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

/** A marker that can be waited on. */
struct Published {
  Marker marker = 0;
  MarkerToken token = 0;
  std::uint64_t serial = 0;
  Point implied;  // a second point that it stands for; that stream has an entry that points here
  Frontier snapshot;  // what a waiter joins
};

/** A number that another stream's marker stands for. */
struct Alias {
  Marker marker = 0;
  Point recorded;
};

enum class Phase : unsigned char { vacant, open, closed };

/** One stream at a time. Vacant only when all work of every tenant so far is complete. */
struct Slot {
  static constexpr Marker kNever = std::numeric_limits<Marker>::max();  // has not been blocking

  // Written under the ledger's mutex, read without.
  std::atomic<std::uint32_t> generation{1};  // the tenant's; the next tenant's while vacant
  std::atomic<Phase> phase{Phase::vacant};
  std::atomic<Marker> settled{kNever};  // the epoch whose completion `completed` holds already
  MarkerCount count;
  std::atomic<Marker> completed{0};
  SharedFrontier shared;  // `frontier`, while the stream is open

  // Under the ledger's mutex.
  StreamTraits traits;
  Frontier frontier;
  std::size_t kept_points = 0;       // of `frontier`, when complete ones were last dropped
  NumberedRing<Published> markers;   // neither complete nor withdrawn
  std::vector<Published> withdrawn;  // by time of withdrawal, the last few
  NumberedRing<Alias> aliases;       // of the legacy stream: markers of blocking streams
  EpochLog epochs;                   // of a stream that has been blocking
  Marker waited_in = 0;              // the epoch in which it last waited while blocking
  bool is_watched = false;           // the blocking group looks at it when an epoch is complete

  [[nodiscard]] StreamId id(std::uint32_t slot) const noexcept { return {slot, generation.load()}; }
};

}  // namespace millrace::ordering
