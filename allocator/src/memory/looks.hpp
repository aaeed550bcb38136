#pragma once

#include <cstddef>
#include <limits>

#include "memory/block.hpp"
#include "ordering/steps.hpp"

namespace millrace {

inline constexpr auto kAnySize = std::numeric_limits<std::size_t>::max();

/**
 * @brief A request looks at no more lanes, or blocks of one lane, or runs than these before it does
 *        without: it may then wait or grow where the next would have served it, but is never slow.
 */
inline constexpr std::size_t kMostCandidates = 64;

/** @brief The first block of at least `bytes`, and at most `limit`, that is `usable`. */
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
