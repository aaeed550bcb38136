#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "millrace/ordering/frontier.hpp"

namespace millrace::ordering {

/**
 * A copy of a small frontier that any thread reads without a lock while one thread writes.
 *
 * The version is odd during a change. A reader that notices a change answers `unknown`; its caller
 * then takes the lock.
 */
class SharedFrontier {
 public:
  enum class Answer : unsigned char { no, yes, unknown };

  /**
   * Decides by the shared points whether the frontier covers `point`. Returns `unknown` if some
   * points were left out, or if slot `hidden` is among them, which stands for more points.
   */
  [[nodiscard]] Answer covers(Point point, std::uint32_t hidden) const noexcept {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    const std::uint32_t count = count_.load(std::memory_order_acquire);
    Answer answer = count <= kMost ? Answer::no : Answer::unknown;
    for (std::uint32_t i = 0; i < count && i < kMost; ++i) {
      const std::uint64_t stream = points_[i].stream.load(std::memory_order_acquire);
      const Marker marker = points_[i].marker.load(std::memory_order_acquire);
      const auto slot = static_cast<std::uint32_t>(stream);
      const auto generation = static_cast<std::uint32_t>(stream >> 32);
      if (slot == hidden) answer = Answer::unknown;
      if (slot != point.stream.slot || generation < point.stream.generation) continue;
      if (generation == point.stream.generation && marker < point.marker) continue;
      answer = Answer::yes;
      break;
    }
    const bool changed = (version & 1) != 0 || version_.load(std::memory_order_relaxed) != version;
    return changed ? Answer::unknown : answer;
  }

  /** Publishes a new frontier. Only one thread at a time may call it. */
  void share(const Frontier& frontier) noexcept {
    const std::uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::uint32_t count = 0;
    for (const Point point : frontier) {
      if (count < kMost) points_[count].set(point);
      if (++count > kMost) break;
    }
    count_.store(count, std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kMost = 6;

  struct SharedPoint {
    std::atomic<std::uint64_t> stream{0};
    std::atomic<Marker> marker{0};

    void set(Point point) noexcept {
      stream.store(std::uint64_t{point.stream.generation} << 32 | point.stream.slot,
                   std::memory_order_release);
      marker.store(point.marker, std::memory_order_release);
    }
  };

  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> count_{0};  // above kMost: some points were left out
  std::array<SharedPoint, kMost> points_;
};

}  // namespace millrace::ordering
