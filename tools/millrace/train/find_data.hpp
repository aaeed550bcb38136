#pragma once

#include <string>
#include <vector>

#include "cli/file_use.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/** @brief The files that a value of --data names. @throws UsageError like find_data */
[[nodiscard]] std::vector<UsedPath> data_files(const std::string& data);

/**
 * @brief Interprets --data, --test and --data-format. The first lines of a file decide its format.
 * @throws UsageError if the data do not exist; for Adult, with the places that were searched
 */
[[nodiscard]] DataOptions find_data(const TrainArguments& arguments);

}  // namespace millrace::cli
