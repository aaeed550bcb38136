#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/explained.hpp"
#include "millrace/observe/explain_difference.hpp"
#include "page/page_data.hpp"

/// @file
/// The page's tables that come from an explanation.

namespace millrace::cli {

/** @brief Adds a table of a device's memory at one moment, by part. */
void add_part_rows(PageRun& run, std::uint32_t device, const MemoryMoment& moment,
                   const char* title);

/**
 * @brief Adds tables of memory that is reserved but not live: by site, by stream and by pool.
 * @param by_site  title of the first table
 * @param prefix   prefix of the other titles
 */
void add_share_rows(PageRun& run, const ExplainedFile& file, const ExplainedDevice& device,
                    const char* by_site, const std::string& prefix);

/** @brief Adds the ladder of a device, if it exists, and the table of what-if replays. */
void add_what_if(PageRun& run, const ExplainedDevice& device);

/** @brief The rows of the replays: the reserved bytes and the cost of each. */
[[nodiscard]] std::vector<PageRow> what_if_rows(const ExplainedDevice& device);

/** @brief Inserts tables of growth since the earlier file (by part, stream and site) at the front.
 */
void add_change_rows(PageRun& run, const std::vector<DeviceDifference>& devices);

}  // namespace millrace::cli
