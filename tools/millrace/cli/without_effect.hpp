#pragma once

#include <string>
#include <string_view>

#include "cli/error.hpp"

namespace millrace::cli {

/**
 * @brief Refuses an option that changes nothing beside the others.
 * @param why    "synthetic data have no lines"
 * @param right  what it would go with
 * @throws UsageError if it is `given`
 */
inline void refuse_without_effect(std::string_view option, bool given, const std::string& why,
                                  const std::string& right) {
  if (given) throw UsageError{"this would have no effect: " + why, std::string{option}, right};
}

}  // namespace millrace::cli
