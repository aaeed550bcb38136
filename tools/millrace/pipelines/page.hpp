#pragma once

#include <string>

#include "page/recorded.hpp"
#include "pipelines/options.hpp"

namespace millrace::cli {

/**
 * @brief The page of `--html` for one row, or for two rows on one axis. It shows the rank that
 *        reserves most in the run with the first seed.
 * @throws UsageError if there are more than two rows, or like `PageOutput`
 */
[[nodiscard]] RecordedPage pipelines_page(const std::string& file, const PipelinesOptions& options);

}  // namespace millrace::cli
