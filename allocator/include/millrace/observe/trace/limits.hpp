#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::trace {

/**
 * @brief How much a reader takes before it refuses a file, so that a hostile one costs bounded
 * memory and time. The defaults take snapshots of several gigabytes.
 */
struct TraceLimits {
  std::uint64_t max_file_bytes = std::uint64_t{4} << 30;      ///< as it lies on the disk
  std::uint64_t max_inflated_bytes = std::uint64_t{8} << 30;  ///< after gunzip
  std::uint64_t max_inflation = 128;  ///< bytes from each byte of gzip, once over 64 MiB
  std::size_t max_values = std::size_t{1}
                           << 28;  ///< values in a pickle or JSON file, 16 bytes each
  std::size_t max_depth = 64;      ///< lists, tuples and dicts inside each other
};

}  // namespace millrace::trace
