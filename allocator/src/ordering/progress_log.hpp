#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace::ordering {

/**
 * Lists the streams that made progress most recently, read without a lock.
 *
 * Only one thread at a time may call `note`. A reader copies entries first and then checks whether
 * they may have been overwritten meanwhile.
 */
class ProgressLog {
 public:
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }

  void note(StreamId stream) noexcept {
    const std::uint64_t count = count_.load(std::memory_order_relaxed);
    entries_[count % kEntries].store(std::uint64_t{stream.generation} << 32 | stream.slot,
                                     std::memory_order_release);
    count_.store(count + 1, std::memory_order_release);
  }

  /**
   * Appends the streams noted since `seen`, and sets `seen` to now. @return false if the list is
   * lost
   */
  bool read(std::uint64_t& seen, std::vector<StreamId>& streams) const {
    const std::uint64_t from = seen;
    const std::uint64_t to = count();
    seen = to;
    if (to - from >= kEntries) return false;
    const std::size_t before = streams.size();
    for (std::uint64_t i = from; i < to; ++i) {
      const std::uint64_t entry = entries_[i % kEntries].load(std::memory_order_acquire);
      streams.push_back(
          {static_cast<std::uint32_t>(entry), static_cast<std::uint32_t>(entry >> 32)});
    }
    // `note` may be writing one more entry, so one entry less than kEntries is safe.
    if (count_.load(std::memory_order_relaxed) - from < kEntries) return true;
    streams.resize(before);
    return false;
  }

 private:
  static constexpr std::size_t kEntries = 512;

  std::array<std::atomic<std::uint64_t>, kEntries> entries_{};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace millrace::ordering
