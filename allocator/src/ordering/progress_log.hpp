#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace::ordering {

/**
 * Streams of which more is complete than before: the last few hundred, read without a lock.
 *
 * One thread at a time notes. A reader copies entries first and then asks whether they may have
 * been overwritten meanwhile.
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

  /** Appends what was noted since `seen`, which is then now. @return false if that is lost */
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
    // One entry more may be half way to being noted.
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
