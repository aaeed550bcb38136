#pragma once

#include <cstdint>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** @brief Whether a block got memory that its user was not allowed to use yet. */
struct ReuseCheck {
  bool illegal = false;
  std::uint64_t steps = 0;  ///< number of earlier blocks visited
};

/**
 * @brief Searches for the first illegal reuse.
 *
 * A block is forgotten if its legal successor outlasts it: every block in conflict with it is also
 * in conflict with the successor. So few blocks are kept for each address.
 */
[[nodiscard]] ReuseCheck check_reuse(const ConflictGraph& graph);

}  // namespace millrace
