#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/observe/explain.hpp"

namespace millrace {

/** @brief Bytes of one kind, stream and site at the peaks of two logs. */
struct MemoryDifference {
  MemoryPart part = MemoryPart::live;
  std::string stream;  ///< as `stream_names` calls it
  std::string site;    ///< `ExplainedSite::origin`
  std::uint64_t first = 0, second = 0;
  std::uint64_t first_blocks = 0, second_blocks = 0;

  [[nodiscard]] std::int64_t change() const noexcept {
    return static_cast<std::int64_t>(second - first);
  }
};

/** @brief One device of two logs. A device that a log does not have counts as 0 bytes. */
struct DeviceDifference {
  std::uint32_t device = 0;
  /// Whether all reserved bytes are compared. Otherwise a log does not have them, and live bytes
  /// are compared.
  bool of_reserved = true;
  std::uint64_t first = 0, second = 0;  ///< bytes that are compared
  /// The changes, the largest first. They add up to `second - first`.
  std::vector<MemoryDifference> rows;
};

/** @brief Compares the peaks of two logs, device by device. */
[[nodiscard]] std::vector<DeviceDifference> difference(const Explanation& first,
                                                       const Explanation& second);

/**
 * @brief A name for each stream of an explanation: "stream copy" or "stream 3" if the log names it
 *        "copy" or "stream 3", "cudaMalloc" for memory of all streams; otherwise "default stream",
 * "stream 0x7f12a0", and with `numbered` "side stream 1", ... in the order in which each device's
 * log names them.
 *
 * Handles are addresses that differ between processes, so numbers serve to compare two logs.
 */
[[nodiscard]] std::vector<std::string> stream_names(const Explanation& explanation, bool numbered);

}  // namespace millrace
