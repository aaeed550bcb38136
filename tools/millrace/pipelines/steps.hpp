#pragma once

#include <string>

#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief An SVG of two steps in the middle of a run: the operations of each stream of rank 0. */
[[nodiscard]] std::string draw_steps(const PipelineRow& row, const PipelinesOptions& options);

}  // namespace millrace::cli
