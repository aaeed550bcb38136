#pragma once

#include <string>
#include <vector>

#include "cli/file_use.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/** @brief The files that a value of --data stands for. @throws UsageError as find_data */
[[nodiscard]] std::vector<UsedPath> data_files(const std::string& data);

/**
 * @brief What --data, --test and --data-format mean. Files are told apart by their first lines.
 * @throws UsageError if there is no such data; for Adult, with where it was looked for
 */
[[nodiscard]] DataOptions find_data(const TrainArguments& arguments);

}  // namespace millrace::cli
