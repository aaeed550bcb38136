#pragma once

#include <string>
#include <vector>

#include "cli/file_use.hpp"

namespace millrace::cli {

/**
 * @brief The files of a sink or a source: the folder that an address such as `file:DIR` names,
 * which belongs to the sink; certificates, keys and secrets that the settings of an address name,
 *        which are only read.
 */
[[nodiscard]] std::vector<UsedPath> sink_files(const std::string& spec);

}  // namespace millrace::cli
