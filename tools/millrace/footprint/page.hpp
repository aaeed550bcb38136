#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "footprint/options.hpp"
#include "footprint/rows.hpp"
#include "page/output.hpp"

namespace millrace::cli {

/** @brief The page of `--html`: the runs with the first seed of one row, or of two on one axis. */
class FootprintPage {
 public:
  /** @throws UsageError if there are more rows, or the device is a GPU, or as `PageOutput` */
  FootprintPage(const std::string& file, const FootprintOptions& options);

  /** @brief For FootprintWatch::recorded. This object outlives it. */
  [[nodiscard]] std::function<void(std::size_t, const experiment::RecordedRun&)> recorder();

  /** @brief Writes the page; nothing if every row ran out of memory. */
  void write(const std::vector<FootprintTable>& tables);

 private:
  const FootprintOptions& options_;
  PageOutput output_;
  std::vector<std::optional<PageRun>> runs_;  // by row
};

}  // namespace millrace::cli
