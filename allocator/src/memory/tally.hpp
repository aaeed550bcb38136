#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/relaxed.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Allocations and frees since the tally was last added to the meter, with the highest and
 *        lowest values in between. Takes no lock.
 */
class Tally {
 public:
  struct Change {
    std::ptrdiff_t now = 0, highest = 0, lowest = 0;

    [[nodiscard]] bool empty() const noexcept { return highest == 0 && lowest == 0; }

    void add(std::size_t bytes) noexcept {
      now += static_cast<std::ptrdiff_t>(bytes);
      highest = std::max(highest, now);
    }
    void subtract(std::size_t bytes) noexcept {
      now -= static_cast<std::ptrdiff_t>(bytes);
      lowest = std::min(lowest, now);
    }
  };

  /** Maximum bytes of each stream that the peaks of all streams together may miss. */
  static constexpr std::ptrdiff_t kMost = std::ptrdiff_t{32} << 20;

  /** @brief Returns whether it has counted nothing. It may be called without the lock. */
  [[nodiscard]] bool empty() const noexcept { return !counts; }
  /** @brief Returns whether blocks with this tag can be counted without allocating memory. */
  [[nodiscard]] bool knows(Tag tag) const noexcept { return tag.index < known_tags; }
  /** @brief Returns whether a block of `bytes` can be counted without allocating memory, and so
   * that peaks miss at most `kMost` bytes. */
  [[nodiscard, gnu::always_inline]] bool has_room(std::size_t bytes, Tag tag) const noexcept {
    const auto size = static_cast<std::ptrdiff_t>(std::min<std::size_t>(bytes, kMost + 1));
    return knows(tag) && allocated.now + size <= kMost && allocated.now - size >= -kMost;
  }
  [[gnu::always_inline]] void allocate(std::size_t asked, std::size_t bytes, Tag tag) noexcept {
    requested.add(asked);
    allocated.add(bytes);
    tags[tag.index].add(bytes);
    ++allocations;
    counts = true;
  }
  [[gnu::always_inline]] void free(std::size_t asked, std::size_t bytes, Tag tag) noexcept {
    requested.subtract(asked);
    allocated.subtract(bytes);
    tags[tag.index].subtract(bytes);
    ++frees;
    counts = true;
  }
  /** @brief Makes room for `count` tags. */
  void know_tags(std::size_t count) {
    tags.resize(count);
    known_tags = count;
  }
  void clear() noexcept {
    requested = allocated = {};
    std::ranges::fill(tags, Change{});
    allocations = frees = searched = 0;
    counts = false;
  }

  Change requested, allocated;
  std::vector<Change> tags;  // by index of the tag
  std::size_t known_tags = 0;
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t searched = 0;    // allocations that no front served
  Relaxed<bool> counts = false;  // has counted something
};

}  // namespace millrace
