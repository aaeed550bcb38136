#pragma once

#include <string>
#include <vector>

#include "cli/file_use.hpp"

namespace millrace::cli {

/**
 * @brief The files that a sink's or source's address names.
 *
 * The folder of an address such as `file:DIR` belongs to the sink and is written. Certificates,
 * keys and secrets in the address's settings are only read.
 */
[[nodiscard]] std::vector<UsedPath> sink_files(const std::string& spec);

}  // namespace millrace::cli
