#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/model/checkpoint.hpp"

namespace millrace::model {

/** @brief The header's JSON is no longer than this, which is 250,000 tensors. */
inline constexpr std::uint64_t kMostHeader = std::uint64_t{16} << 20;

struct Named {
  std::string name;
  std::uint64_t number = 0;  ///< of floats, or the counter
  std::uint64_t begin = 0;   ///< in the file
};

struct ParsedHeader {
  CheckpointHeader header;
  std::vector<Named> tensors, counters;
};

/**
 * @brief What the JSON in a checkpoint says.
 * @param payload  bytes that the file has behind it: the tensors', each with a checksum
 * @throws std::invalid_argument with what is wrong in it
 */
[[nodiscard]] ParsedHeader parse_checkpoint_header(std::string_view json, std::uint64_t payload);

}  // namespace millrace::model
