#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/model/checkpoint.hpp"

namespace millrace::model {

/** @brief The longest header in bytes, enough for 250,000 tensors. */
inline constexpr std::uint64_t kMostHeader = std::uint64_t{16} << 20;

struct Named {
  std::string name;
  std::uint64_t number = 0;  ///< the tensor's number of floats, or the counter's value
  std::uint64_t begin = 0;   ///< offset of the tensor in the file
};

struct ParsedHeader {
  CheckpointHeader header;
  std::vector<Named> tensors, counters;
};

/**
 * @brief Reads the JSON header of a checkpoint.
 * @param payload  bytes that follow the header in the file: the tensors, each with a checksum
 * @throws std::invalid_argument that says what is wrong in the header
 */
[[nodiscard]] ParsedHeader parse_checkpoint_header(std::string_view json, std::uint64_t payload);

}  // namespace millrace::model
