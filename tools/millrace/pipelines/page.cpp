#include "pipelines/page.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace millrace::cli {

RecordedPage pipelines_page(const std::string& file, const PipelinesOptions& options) {
  check_page_runs(options.cells.size(), fmt::format("{} rows", options.cells.size()),
                  "--pipeline sparse-dist --copy side-stream --allocator torch,millrace");
  std::vector<PlannedRun> runs;
  for (const experiment::PipelineCell& cell : options.cells) {
    const std::string pipeline = title_of(cell);
    const std::string copy{millrace::to_string(cell.options.copy)};
    runs.push_back({fmt::format("{}, {} {}", pipeline, cell.allocator, copy),
                    {{"device", options.device.name},
                     {"ranks", fmt::format("{}; the one that reserves most is shown",
                                           options.workload.world_size)},
                     {"pipeline", pipeline},
                     {"allocator", cell.allocator},
                     {"copy strategy", copy},
                     {"waits", std::string{millrace::to_string(cell.options.waits)}},
                     {"workload", options.workload.name},
                     {"seed", std::to_string(options.seed)}}});
  }
  return {file, "millrace pipelines " + options.workload.name, std::move(runs)};
}

}  // namespace millrace::cli
