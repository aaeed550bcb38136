#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief The advice of the first screen, at most three lines: where the usual row stands, and one
 *         or two changes. "" if every row failed. */
[[nodiscard]] std::string render_advice(const std::vector<PipelineRow>& rows, const Painter& paint);

}  // namespace millrace::cli
