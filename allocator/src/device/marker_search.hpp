#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "millrace/ordering/ledger.hpp"

namespace millrace {

/**
 * @brief Which markers of one stream to ask the device about, so that few questions find the newest
 *        one that is complete.
 *
 * Markers of a stream complete in order. The oldest ones are asked about one by one, as most often
 * few are complete; after that in growing steps. A `no` is not asked beyond, and what lies before
 * it is halved. The caller completes each marker that is answered with yes before it goes on.
 */
class MarkerSearch {
 public:
  explicit MarkerSearch(StreamId stream) : stream_(stream) {}

  /** @brief The next marker to ask about; nothing when the search is over. */
  [[nodiscard]] std::optional<WaitableMarker> next(const Ledger& ledger) const {
    return ledger.outstanding(stream_, ahead_, refused_);
  }

  void answered(Marker marker, bool complete) {
    const bool halving = refused_ != kNone;
    if (!complete) {
      refused_ = marker;
      ahead_ /= 2;
    } else if (halving) {
      ahead_ /= 2;
    } else if (++complete_ >= kOneByOne) {
      ahead_ = 2 * ahead_ + 1;
    }
  }

 private:
  static constexpr Marker kNone = std::numeric_limits<Marker>::max();
  static constexpr int kOneByOne = 4;

  StreamId stream_;
  Marker refused_ = kNone;  // not complete, and so nothing from there on
  std::size_t ahead_ = 0;   // how many places after the oldest marker to ask
  int complete_ = 0;
};

}  // namespace millrace
