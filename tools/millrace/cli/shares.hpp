#pragma once

#include <nlohmann/json.hpp>

#include "millrace/observe/report.hpp"

namespace millrace::cli {

/**
 * @brief The owners of a run's bytes and the reasons why free bytes were not reused. The keys are
 *        those of `explain`.
 * @param knows_usable  false: `idle_at_peak` is unknown and becomes null
 */
[[nodiscard]] nlohmann::ordered_json shares_of(const Ladder& ladder, const StreamNames& name,
                                               bool knows_usable);

}  // namespace millrace::cli
