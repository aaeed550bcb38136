#pragma once

#include <cstdint>
#include <map>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief Recognizes blocks that PyTorch frees while it serves a request, when the device is full.
 *
 * PyTorch searches its cache first. If nothing fits and the device is full, it waits for pending
 * frees, releases cached segments and acquires a new segment. A block that becomes free meanwhile
 * does not serve this request, even if it fits. The next request finds it. In the log, this is a
 * series of completed frees and released segments that ends with a new segment and the request.
 */
class RecordedRetry {
 public:
  RecordedRetry(const trace::AllocationLog& log, std::uint32_t device)
      : log_(log), device_(device) {}

  /**
   * @brief Returns whether a block that becomes free must not serve the next request.
   * @param completed  a free_completed of the device; in the order of the log
   */
  [[nodiscard]] bool keeps(const trace::LogEvent& completed);

 private:
  void read_stretch(const trace::LogEvent& first);

  const trace::AllocationLog& log_;
  std::uint32_t device_;
  const trace::LogEvent* end_ = nullptr;  // end of the series that was read last
  bool retried_ = false;
  std::map<std::uint64_t, std::uint64_t> released_;  // segments released in it: begin and end
};

}  // namespace millrace
