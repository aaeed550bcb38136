#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/explained.hpp"
#include "millrace/observe/explain_difference.hpp"
#include "page/page_data.hpp"

/// @file
/// The tables of a page that come from an explanation.

namespace millrace::cli {

/** @brief Adds where the memory of a device is at a moment, by part. */
void add_part_rows(PageRun& run, std::uint32_t device, const MemoryMoment& moment,
                   const char* title);

/**
 * @brief Adds what is reserved and not live: by site, by stream and by pool.
 * @param by_site  title of the first table
 * @param prefix   of the titles of the others
 */
void add_share_rows(PageRun& run, const ExplainedFile& file, const ExplainedDevice& device,
                    const char* by_site, const std::string& prefix);

/** @brief Adds the ladder of a device, if there is one, and what it would have reserved. */
void add_what_if(PageRun& run, const ExplainedDevice& device);

/** @brief The rows of the replays: what each would have reserved, and what it costs. */
[[nodiscard]] std::vector<PageRow> what_if_rows(const ExplainedDevice& device);

/** @brief Inserts what grew since the earlier file, by part, stream and site, before all tables. */
void add_change_rows(PageRun& run, const std::vector<DeviceDifference>& devices);

}  // namespace millrace::cli
