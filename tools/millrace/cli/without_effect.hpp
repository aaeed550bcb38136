#pragma once

#include <string>
#include <string_view>

#include "cli/error.hpp"

namespace millrace::cli {

/**
 * @brief Refuses an option that would have no effect in combination with the other options.
 * @param why    the reason: "synthetic data have no lines"
 * @param right  the options with which it has an effect
 * @throws UsageError if the option was `given`
 */
inline void refuse_without_effect(std::string_view option, bool given, const std::string& why,
                                  const std::string& right) {
  if (given) throw UsageError{"this would have no effect: " + why, std::string{option}, right};
}

}  // namespace millrace::cli
