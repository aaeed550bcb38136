#pragma once

#include "train/options.hpp"

namespace millrace::cli {

/**
 * @brief What --data, --test and --format mean. Files are told apart by their first lines.
 * @throws UsageError if there is no such data; for Adult, with where it was looked for
 */
[[nodiscard]] DataOptions find_data(const TrainArguments& arguments);

}  // namespace millrace::cli
