#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/observe/packing.hpp"
#include "observe/packing/section_search.hpp"
#include "observe/packing/steps.hpp"

namespace millrace::packing {

/** The offsets that the search gave to intervals; complete after Outcome::found. */
struct SearchResult {
  Outcome outcome = Outcome::gave_up;
  std::vector<std::uint64_t> offsets;
};

/**
 * Searches for a packing no higher than `height`, after removing parts that do not affect the
 * answer:
 * - A block is placed last if the others leave a gap for it in every arrangement.
 * - Stretches of time that no block connects are packed separately.
 * - Blocks that live as long as all others together lie at the bottom.
 */
[[nodiscard]] SearchResult search_packing(std::span<const Interval> intervals, std::uint64_t height,
                                          Steps& steps);

}  // namespace millrace::packing
