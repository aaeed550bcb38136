#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "millrace/ordering/ledger.hpp"

namespace millrace {

/**
 * @brief Chooses which markers of one stream to query, so that few queries find the newest complete
 *        one.
 *
 * Markers of a stream complete in order. The first few are queried one by one, because usually few
 * are complete, and later ones in growing steps. After a marker that is not complete, the search
 * bisects the markers before it. The caller completes each marker that is found complete before it
 * calls `next` again.
 */
class MarkerSearch {
 public:
  explicit MarkerSearch(StreamId stream) : stream_(stream) {}

  /** @brief Returns the next marker to query; std::nullopt when the search is over. */
  [[nodiscard]] std::optional<WaitableMarker> next(const Ledger& ledger) const {
    if (is_over_) return std::nullopt;
    return ledger.outstanding(stream_, ahead_, refused_);
  }

  void answered(Marker marker, bool complete) {
    const bool halving = refused_ != kNone;
    if (!complete) {
      is_over_ = ahead_ == 0;  // it was the oldest marker
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
  Marker refused_ = kNone;  // this marker and all later ones are not complete
  std::size_t ahead_ = 0;   // the next query is this many places after the oldest marker
  int complete_ = 0;
  bool is_over_ = false;
};

}  // namespace millrace
