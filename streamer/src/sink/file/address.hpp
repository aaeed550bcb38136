#pragma once

#include <string_view>

#include "sink/file/rank_writer.hpp"

namespace millrace::sink {

/**
 * @brief Parses `file:DIR[?keep=newest&segment_bytes=N]`.
 * @throws std::invalid_argument that says what is wrong with the address
 */
[[nodiscard]] FileOptions parse_file_address(std::string_view spec);

}  // namespace millrace::sink
