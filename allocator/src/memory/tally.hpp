#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/relaxed.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief What was allocated and freed since it was last added to the meter, with the highest
 *        and lowest values in between. Locks nothing.
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

  /** Peaks of all streams together miss at most this many bytes of each stream. */
  static constexpr std::ptrdiff_t kMost = std::ptrdiff_t{32} << 20;

  /** @brief May be asked without the lock that the rest is under. */
  [[nodiscard]] bool empty() const noexcept { return !counts; }
  /** @brief Whether blocks of `tag` can be counted without memory. */
  [[nodiscard]] bool knows(Tag tag) const noexcept { return tag.index < known_tags; }
  /** @brief The same, and whether peaks miss no more than `kMost` with one of `bytes`. */
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
  /** @brief Blocks of so many tags can be counted from now on. */
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
  std::vector<Change> tags;  // by index, of those that were known at the last clear
  std::size_t known_tags = 0;
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t searched = 0;    // of the allocations, those that no front served
  Relaxed<bool> counts = false;  // something
};

}  // namespace millrace
