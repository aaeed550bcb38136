#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The page's number of a log's first event: 1 if the log begins with memory, because event 0
 *        of the page then shows that beginning; otherwise 0.
 */
[[nodiscard]] PageEvent first_event_of(const trace::AllocationLog& log);

/** @brief Maps indices of the log to indices of the page. kUnknown: not in the page. */
struct PageIndices {
  std::vector<std::uint32_t> stacks;
  std::vector<std::uint32_t> tags;   ///< by label
  std::vector<std::uint32_t> sites;  ///< by block
};

/**
 * @brief The blocks of a log with their lifetimes, and with the earlier block in their memory.
 * @param explanation  the explanation of this log
 */
[[nodiscard]] std::vector<PageBlock> page_blocks_of(const trace::AllocationLog& log,
                                                    const Explanation& explanation,
                                                    const PageIndices& indices);

}  // namespace millrace::cli
