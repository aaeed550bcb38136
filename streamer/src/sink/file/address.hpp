#pragma once

#include <string_view>

#include "sink/file/rank_writer.hpp"

namespace millrace::sink {

/** @brief What `file:DIR[?keep=newest&segment_bytes=N]` says.
 *  @throws std::invalid_argument that says what is wrong with it */
[[nodiscard]] FileOptions parse_file_address(std::string_view spec);

}  // namespace millrace::sink
