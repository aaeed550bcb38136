#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief The advice of the first screen, up to three lines: the figures of the usual row, and one
 *         or two changes. "" if every row failed. */
[[nodiscard]] std::string render_advice(const std::vector<PipelineRow>& rows, const Painter& paint);

}  // namespace millrace::cli
