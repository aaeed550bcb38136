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

/** @brief The page of `--html`: what one allocator does with the requests of a file, or two on one
 *         axis, which counts events. */
class ReplayPage {
 public:
  /** @brief Before the work begins. @throws UsageError as PageOutput */
  explicit ReplayPage(const std::string& file) : output_(file) {}

  /** @throws UsageError if the replays of this log are more than a page shows */
  static void check(const trace::AllocationLog& log, const std::vector<std::string>& allocators);

  /** @brief For ReplayRequest::traced. This object outlives it. */
  [[nodiscard]] ReplayTraced tracer();

  /** @brief Writes the page; nothing if every row ran out of memory. */
  void write(const ReplayedFile& file);

 private:
  PageOutput output_;
  std::map<std::pair<std::uint32_t, std::string>, PageRun> runs_;  // by device and allocator
};

}  // namespace millrace::cli
