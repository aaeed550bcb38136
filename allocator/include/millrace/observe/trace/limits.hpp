#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::trace {

/**
 * @brief Limits beyond which a reader refuses a file, so that a hostile file costs bounded memory
 *        and time.
 *
 * The defaults accept snapshots of several gigabytes. Time is proportional to the inflated length.
 */
struct TraceLimits {
  std::uint64_t max_file_bytes = std::uint64_t{4} << 30;      ///< size on the disk
  std::uint64_t max_inflated_bytes = std::uint64_t{8} << 30;  ///< size after gunzip
  std::uint64_t max_inflation = 128;  ///< inflated bytes per byte of gzip, beyond 64 MiB
  std::size_t max_values = std::size_t{1} << 30;  ///< values in a pickle or JSON file
  std::size_t max_depth = 64;  ///< nesting of lists, tuples and dicts; 250 at most

  /// @name Memory for the contents of a file, in addition to its inflated bytes
  /// The smallest of three limits applies: `spare_memory` plus an amount per inflated byte,
  /// `spare_memory` plus an amount per byte on the disk, and `max_memory`. A snapshot takes about
  /// 10 bytes per byte, and gzip makes it 16 to 30 times smaller.
  /// @{
  std::uint64_t spare_memory = std::uint64_t{64} << 20;
  std::uint64_t memory_per_byte = 24;        ///< per byte of the inflated file
  std::uint64_t memory_per_gzip_byte = 256;  ///< per byte of a gzip file on the disk
  std::uint64_t max_memory = std::uint64_t{32} << 30;
  /// @}
};

}  // namespace millrace::trace
