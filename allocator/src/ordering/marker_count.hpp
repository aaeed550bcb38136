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
 * was not taken yet when the reader began. A thread whose work follows a marker on its stream sees
 * that the marker's number is taken: the number is stored before the driver's call that records the
 * marker, and the driver's calls on one stream synchronize the threads that make them.
 */
class MarkerCount {
 public:
  [[nodiscard, gnu::always_inline]] Marker next(const std::atomic<Marker>& epoch) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return number(word >> 1, (word & 1) != 0 ? epoch.load() : 0);
  }

  [[nodiscard]] bool counts_epochs() const noexcept {
    return (word_.load(std::memory_order_acquire) & 1) != 0;
  }

  // The caller holds the ledger's mutex.
  void set(Marker next) noexcept { set_word(next << 1); }
  /** Sets the next number, and adds epochs from now on. */
  void set_counting(Marker next, Marker epoch) noexcept { set_word((next - epoch) << 1 | 1); }
  Marker take(const std::atomic<Marker>& epoch) noexcept {
    const Marker taken = next(epoch);
    set_word(word() + 2);
    return taken;
  }

 private:
  [[nodiscard]] std::uint64_t word() const noexcept {
    return word_.load(std::memory_order_relaxed);
  }
  void set_word(std::uint64_t word) noexcept { word_.store(word, std::memory_order_release); }

  static constexpr Marker kMask = ~Marker{0} >> 1;
  static Marker number(Marker own, Marker epoch) noexcept { return (own + epoch) & kMask; }

  std::atomic<std::uint64_t> word_{1 << 1};  // own part << 1 | whether epochs are added
};

}  // namespace millrace::ordering
