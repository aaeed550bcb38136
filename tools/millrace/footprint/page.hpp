#pragma once

#include <string>

#include "footprint/options.hpp"
#include "page/recorded.hpp"

namespace millrace::cli {

/**
 * @brief The page of `--html`: the runs with the first seed of one row, or of two on one axis.
 * @throws UsageError if there are more rows, or the device is a GPU, or as `PageOutput`
 */
[[nodiscard]] RecordedPage footprint_page(const std::string& file, const FootprintOptions& options);

}  // namespace millrace::cli
