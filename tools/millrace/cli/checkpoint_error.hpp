#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cli/error.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"

namespace millrace::cli {

/** @brief Converts a checkpoint error for the user. @param option  the option that named the file
 */
[[nodiscard]] inline UsageError refused_checkpoint(const CheckpointError& error,
                                                   std::string option) {
  return UsageError{fmt::format("{}: {}", error.where(), error.what()), std::move(option),
                    error.right()};
}

}  // namespace millrace::cli
