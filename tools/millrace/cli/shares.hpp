#pragma once

#include <nlohmann/json.hpp>

#include "millrace/observe/report.hpp"

namespace millrace::cli {

/**
 * @brief Whose bytes a run's were, and what the free ones waited for, with the keys of `explain`.
 * @param knows_usable  false: what was idle is not known, and null
 */
[[nodiscard]] nlohmann::ordered_json shares_of(const Ladder& ladder, const StreamNames& name,
                                               bool knows_usable);

}  // namespace millrace::cli
