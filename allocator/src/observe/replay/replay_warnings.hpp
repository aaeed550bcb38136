#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief What of a device's blocks is replayed otherwise than it was.
 * @param as_torch  with PyTorch's settings and pools
 * @param compares  and with its layout at the start, so that decisions are compared
 */
[[nodiscard]] std::vector<std::string> warnings_of_blocks(const trace::AllocationLog& log,
                                                          std::uint32_t device, bool as_torch,
                                                          bool compares);

/** @brief Counts the requests that the recorded allocator refused. */
class RefusedRequests {
 public:
  explicit RefusedRequests(const trace::AllocationLog& log) : of_torch_(log.snapshot.has_value()) {}

  void add(const trace::LogEvent& event);
  /** @brief Adds a line if a request was refused. */
  void warn(std::vector<std::string>& warnings) const;

 private:
  const bool of_torch_;
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace millrace
