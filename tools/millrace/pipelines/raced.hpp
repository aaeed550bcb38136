#pragma once

#include <vector>

#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief Whether the checker found a race in any run. */
[[nodiscard]] bool raced(const std::vector<PipelineRow>& rows);

}  // namespace millrace::cli
