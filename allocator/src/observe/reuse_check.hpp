#pragma once

#include <cstdint>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** @brief Whether a block was given memory that its user might not legally have had. */
struct ReuseCheck {
  bool illegal = false;
  std::uint64_t steps = 0;  ///< earlier blocks that were looked at
};

/**
 * @brief Looks for the first illegal reuse.
 *
 * A block that its legal successor outlasts is forgotten: whatever conflicts with it conflicts with
 * the successor as well. So few blocks are kept for each address.
 */
[[nodiscard]] ReuseCheck check_reuse(const ConflictGraph& graph);

}  // namespace millrace
