#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "page/output.hpp"
#include "page/page_data.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The page of `--html` for one allocator with the requests of a file, or for two allocators
 *         on one axis. The axis counts events. */
class ReplayPage {
 public:
  /** @brief Construct it before the work begins. @throws UsageError like PageOutput */
  explicit ReplayPage(const std::string& file) : output_(file) {}

  /** @throws UsageError if a page cannot show that many replays */
  static void check(const trace::AllocationLog& log, const std::vector<std::string>& allocators);

  /** @brief For ReplayRequest::traced. This object must outlive the returned function. */
  [[nodiscard]] ReplayTraced tracer();

  /** @brief Writes the page; does nothing if every row ran out of memory. */
  void write(const ReplayedFile& file);

 private:
  PageOutput output_;
  std::map<std::pair<std::uint32_t, std::string>, PageRun> runs_;  // by device and allocator
};

}  // namespace millrace::cli
