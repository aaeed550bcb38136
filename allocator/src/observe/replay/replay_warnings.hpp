#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief How a log is replayed. */
struct ReplayManner {
  bool as_torch = false;    ///< with PyTorch's settings and pools
  bool compares = false;    ///< also with its layout at the start; decisions are then compared
  bool expandable = false;  ///< with expandable segments
};

/** @brief Returns warnings about blocks of a device that are not replayed as they were recorded. */
[[nodiscard]] std::vector<std::string> warnings_of_blocks(const trace::AllocationLog& log,
                                                          std::uint32_t device,
                                                          ReplayManner manner);

/** @brief Counts the requests that the recorded allocator refused. */
class RefusedRequests {
 public:
  explicit RefusedRequests(const trace::AllocationLog& log)
      : of_torch_(log.snapshot.has_value()), has_lines_(trace::has_lines(log.format)) {}

  void add(const trace::LogEvent& event);
  /** @brief Adds a line if a request was refused. */
  void warn(std::vector<std::string>& warnings) const;

 private:
  const bool of_torch_;
  const bool has_lines_;
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace millrace
