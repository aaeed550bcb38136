#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/explained.hpp"
#include "millrace/experiment/run_recording.hpp"
#include "page/output.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief A run that a page will show: its name and its description. */
struct PlannedRun {
  std::string name;
  std::vector<std::pair<std::string, std::string>> meta;
};

/**
 * @brief Call it before the work begins.
 * @param runs  "6 rows", for the message
 * @param two   options that select two runs, for the message
 * @throws UsageError if a page cannot show that many runs, or if the device is a GPU, whose work is
 *         not recorded
 */
void check_page_runs(std::size_t count, const std::string& runs, const std::string& two);
void check_page_device(const std::string& device, bool modeled);

/** @brief The page of `--html` for one recorded run, or for two on one axis. */
class RecordedPage {
 public:
  /** @throws UsageError like PageOutput */
  RecordedPage(const std::string& file, std::string title, std::vector<PlannedRun> runs);

  /**
   * @brief Stores a run under its index. Of several ranks, it keeps the one that reserved most.
   *
   * Runs with different indices may come from several threads.
   */
  void take(std::size_t index, const experiment::RecordedRun& run);

  /** @brief Writes the page; does nothing if no run was stored. */
  void write();

 private:
  struct Taken {
    unsigned rank = 0;
    Ladder ladder;
    std::string trace;  ///< in Millrace's format
    PageRun run;
  };

  [[nodiscard]] PageRows compared(std::size_t shown, const ExplainedDevice* explained) const;
  void explain(std::size_t shown);

  PageOutput output_;
  std::string title_;
  std::vector<PlannedRun> planned_;
  std::vector<std::optional<Taken>> taken_;
};

}  // namespace millrace::cli
