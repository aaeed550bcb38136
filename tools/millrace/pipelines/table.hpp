#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "pipelines/rows.hpp"

namespace millrace::cli {

[[nodiscard]] std::string render_table(const std::vector<PipelineRow>& rows,
                                       const PipelinesOptions& options, const Painter& paint);

}  // namespace millrace::cli
