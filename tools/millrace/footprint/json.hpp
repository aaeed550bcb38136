#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief The document `millrace.footprint/1`. docs/footprint.md lists its keys. */
[[nodiscard]] nlohmann::ordered_json to_document(const std::vector<FootprintTable>& tables,
                                                 const FootprintOptions& options);

}  // namespace millrace::cli
