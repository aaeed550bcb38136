#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "explain/explained.hpp"
#include "millrace/observe/explain_difference.hpp"

namespace millrace::cli {

/**
 * @brief The JSON document of an explanation. docs/explain.md lists its keys.
 * @param against  a second file, or nullptr
 * @param changes  the comparison of the two files
 */
[[nodiscard]] nlohmann::ordered_json to_document(const ExplainedFile& file,
                                                 const ExplainedFile* against,
                                                 const std::vector<DeviceDifference>& changes);

}  // namespace millrace::cli
