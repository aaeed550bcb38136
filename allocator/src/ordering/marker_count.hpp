#pragma once

#include <atomic>
#include <cstdint>

#include "millrace/ordering/point.hpp"

namespace millrace::ordering {

/**
 * The number of a stream's next marker, read without a lock.
 *
 * A record on the legacy stream takes a number on each blocking stream too. It only increments the
 * epoch, which the numbers of all blocking streams contain.
 *
 * A reader loads the stream's own part first and the epoch second. Both only grow, so the result
 * was not taken yet when the reader began.
 */
class MarkerCount {
 public:
  [[nodiscard]] Marker next(const std::atomic<Marker>& epoch) const noexcept {
    const std::uint64_t word = word_.load();
    return number(word >> 1, (word & 1) != 0 ? epoch.load() : 0);
  }

  // The caller holds the ledger's mutex.
  [[nodiscard]] bool counts_epochs() const noexcept { return (word_.load() & 1) != 0; }

  void set(Marker next) noexcept { word_.store(next << 1); }
  /** Sets the next number, and adds epochs from now on. */
  void set_counting(Marker next, Marker epoch) noexcept { word_.store((next - epoch) << 1 | 1); }
  Marker take(const std::atomic<Marker>& epoch) noexcept {
    const Marker taken = next(epoch);
    word_.store(word_.load() + 2);
    return taken;
  }

 private:
  static constexpr Marker kMask = ~Marker{0} >> 1;
  static Marker number(Marker own, Marker epoch) noexcept { return (own + epoch) & kMask; }

  std::atomic<std::uint64_t> word_{1 << 1};  // own part << 1 | whether epochs are added
};

}  // namespace millrace::ordering
