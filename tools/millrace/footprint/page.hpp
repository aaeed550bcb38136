#pragma once

#include <string>

#include "footprint/options.hpp"
#include "page/recorded.hpp"

namespace millrace::cli {

/**
 * @brief The page of `--html`: the runs of one row or of two rows on one axis, with the first seed.
 * @throws UsageError if there are more than two rows, if the device is a GPU, or like `PageOutput`
 */
[[nodiscard]] RecordedPage footprint_page(const std::string& file, const FootprintOptions& options);

}  // namespace millrace::cli
