#pragma once

#include <string>

#include "page/recorded.hpp"
#include "pipelines/options.hpp"

namespace millrace::cli {

/**
 * @brief The page of `--html`: the rank that reserves most in the run with the first seed, of one
 *        row or of two on one axis.
 * @throws UsageError if there are more rows, or as `PageOutput`
 */
[[nodiscard]] RecordedPage pipelines_page(const std::string& file, const PipelinesOptions& options);

}  // namespace millrace::cli
