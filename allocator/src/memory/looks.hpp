#pragma once

#include <cstddef>
#include <limits>

#include "memory/block.hpp"
#include "ordering/steps.hpp"

namespace millrace {

inline constexpr auto kAnySize = std::numeric_limits<std::size_t>::max();

/**
 * @brief Maximum number of lanes, of blocks of one lane, and of runs that a step of a request
 *        searches.
 *
 * It limits the time of a request. In exchange, a request may wait or grow although the next
 * candidate would have served it.
 */
inline constexpr std::size_t kMostCandidates = 64;

/**
 * @brief Returns the first `usable` block of at least `bytes` and at most `limit` bytes, or nullptr
 *        if there is none among the first `kMostCandidates` blocks of at least `bytes`.
 */
template <typename Index, typename Usable>
Block* first_usable(const Index& index, std::size_t bytes, std::size_t limit,
                    const Usable& usable) {
  Block* block = index.first(bytes);
  for (std::size_t looks = 0; block != nullptr && looks < kMostCandidates; ++looks) {
    ordering::count_steps(1);
    if (block->bytes > limit) return nullptr;
    if (usable(*block)) return block;
    block = index.after(block);
  }
  return nullptr;
}

}  // namespace millrace
