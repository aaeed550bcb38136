#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::trace {

/**
 * @brief How much a reader takes before it refuses a file, so that a hostile one costs bounded
 * memory and time. The defaults take snapshots of several gigabytes. Time is proportional to the
 * inflated length.
 */
struct TraceLimits {
  std::uint64_t max_file_bytes = std::uint64_t{4} << 30;      ///< as it lies on the disk
  std::uint64_t max_inflated_bytes = std::uint64_t{8} << 30;  ///< after gunzip
  std::uint64_t max_inflation = 128;  ///< bytes from each byte of gzip, once over 64 MiB
  std::size_t max_values = std::size_t{1} << 30;  ///< values in a pickle or JSON file
  std::size_t max_depth = 64;  ///< lists, tuples and dicts inside each other; 250 at most

  /// @name Memory for what a file holds, beside its inflated bytes themselves
  /// The least of the three counts: a file may take `spare_memory` and so much for each byte that
  /// it has, inflated and as it lies on the disk. A snapshot takes about 10 bytes for each byte,
  /// and gzip makes it 16 to 30 times smaller.
  /// @{
  std::uint64_t spare_memory = std::uint64_t{64} << 20;
  std::uint64_t memory_per_byte = 24;        ///< of the inflated file
  std::uint64_t memory_per_gzip_byte = 256;  ///< of a gzip file as it lies on the disk
  std::uint64_t max_memory = std::uint64_t{32} << 30;
  /// @}
};

}  // namespace millrace::trace
