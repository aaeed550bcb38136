#pragma once

#include <string>
#include <vector>

#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief An SVG of the loop's runtime against peak reserved memory, with a mark for each row. */
[[nodiscard]] std::string draw_picture(const std::vector<PipelineRow>& rows,
                                       const PipelinesOptions& options);

}  // namespace millrace::cli
