#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "pipelines/rows.hpp"

namespace millrace::cli {

/** @brief The document `millrace.pipelines/1`. docs/comparison.md lists its keys. */
[[nodiscard]] nlohmann::ordered_json to_document(const std::vector<PipelineRow>& rows,
                                                 const PipelinesOptions& options);

}  // namespace millrace::cli
