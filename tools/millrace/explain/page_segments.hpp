#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The segments of a log, each from its acquisition until it was given back.
 * @param expandable  the page's tag for expandable segments
 */
[[nodiscard]] std::vector<PageSegment> page_segments_of(const trace::AllocationLog& log,
                                                        const Explanation& explanation,
                                                        std::uint32_t expandable);

}  // namespace millrace::cli
