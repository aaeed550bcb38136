#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief Which event of the page is the first one of a log: 1 if the log begins with memory, which
 *        event 0 of the page shows, the beginning.
 */
[[nodiscard]] PageEvent first_event_of(const trace::AllocationLog& log);

/** @brief Indices of the page, by index of the log; kUnknown: the page does not have it. */
struct PageIndices {
  std::vector<std::uint32_t> stacks;
  std::vector<std::uint32_t> tags;   ///< by label
  std::vector<std::uint32_t> sites;  ///< by block
};

/**
 * @brief The blocks of a log with their lives, and with the block that had their memory before.
 * @param explanation  of the log
 */
[[nodiscard]] std::vector<PageBlock> page_blocks_of(const trace::AllocationLog& log,
                                                    const Explanation& explanation,
                                                    const PageIndices& indices);

}  // namespace millrace::cli
