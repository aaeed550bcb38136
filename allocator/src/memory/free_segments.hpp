#pragma once

#include <array>

#include "memory/block.hpp"

namespace millrace {

/** @brief Wholly free segments of each pool, in the order in which they became free. Takes no lock.
 */
class FreeSegments {
 public:
  /** @brief Notes that the block became free. */
  void freed(const Block& block) noexcept {
    Segment& segment = *block.segment;
    segment.free_bytes += block.bytes;
    if (segment.wholly_free()) add(segment);
  }
  /** @brief Notes that the block is no longer free. */
  void claimed(const Block& block) noexcept {
    Segment& segment = *block.segment;
    if (segment.wholly_free()) remove(segment);
    segment.free_bytes -= block.bytes;
  }

  /** @brief Returns the segment that became free first, linked by `free_behind`, or nullptr. */
  [[nodiscard]] Segment* first(bool small) const noexcept { return ends(small).first; }

 private:
  struct Ends {
    Segment *first = nullptr, *last = nullptr;
  };

  [[nodiscard]] const Ends& ends(bool small) const noexcept { return pools_[small ? 1 : 0]; }

  void add(Segment& segment) noexcept {
    Ends& ends = pools_[segment.small ? 1 : 0];
    segment.free_before = ends.last;
    segment.free_behind = nullptr;
    (ends.last == nullptr ? ends.first : ends.last->free_behind) = &segment;
    ends.last = &segment;
  }
  void remove(Segment& segment) noexcept {
    Ends& ends = pools_[segment.small ? 1 : 0];
    Segment *const before = segment.free_before, *const behind = segment.free_behind;
    (before == nullptr ? ends.first : before->free_behind) = behind;
    (behind == nullptr ? ends.last : behind->free_before) = before;
  }

  std::array<Ends, 2> pools_;  // of large and of small segments
};

}  // namespace millrace
