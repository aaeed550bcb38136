#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief Index of a pool in the page; kUnknown for the default pool. Adds a pool that is new. */
[[nodiscard]] std::uint32_t page_pool_of(PageRun& run, const trace::TorchPool& pool);

/**
 * @brief Adds the segments of a log to a page, each from its acquisition until its release. Also
 *        adds the free memory of devices whose streams share it, and the pools of the page's
 *        blocks.
 */
void add_page_segments(PageRun& run, const trace::AllocationLog& log,
                       const Explanation& explanation);

}  // namespace millrace::cli
