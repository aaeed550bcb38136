#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The blocks of a log with their lives, and with the block that had their memory before.
 * @param explanation  of the log
 * @param stacks  by stack of the log: its index in the page, or kUnknown
 */
[[nodiscard]] std::vector<PageBlock> page_blocks_of(const trace::AllocationLog& log,
                                                    const Explanation& explanation,
                                                    const std::vector<std::uint32_t>& stacks);

}  // namespace millrace::cli
