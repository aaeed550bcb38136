#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/observe/packing.hpp"
#include "observe/packing/section_search.hpp"
#include "observe/packing/steps.hpp"

namespace millrace::packing {

/** Where the search put blocks, by interval; complete after Outcome::found. */
struct SearchResult {
  Outcome outcome = Outcome::gave_up;
  std::vector<std::uint64_t> offsets;
};

/**
 * Looks for a packing no higher than `height`, after taking out what cannot decide the question:
 * - a block for which the others, however they lie, leave a gap is placed last;
 * - stretches of time that no block connects are packed apart;
 * - blocks that live as long as all others together lie at the bottom.
 */
[[nodiscard]] SearchResult search_packing(std::span<const Interval> intervals, std::uint64_t height,
                                          Steps& steps);

}  // namespace millrace::packing
