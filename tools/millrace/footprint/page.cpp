#include "footprint/page.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace millrace::cli {

RecordedPage footprint_page(const std::string& file, const FootprintOptions& options) {
  check_page_device(options.device.name, options.device.modeled);
  const std::string first = options.workloads.front().name;
  const std::size_t rows = rows_of(options);
  check_page_runs(rows, fmt::format("{} rows", rows),
                  fmt::format("--workload {} --allocator torch,millrace --copy {}", first,
                              millrace::to_string(options.methods.front())));
  std::vector<PlannedRun> runs;
  for (const experiment::Workload& workload : options.workloads) {
    for (const std::string& allocator : options.allocators) {
      for (const CopyMethod method : options.methods) {
        const std::string copy{millrace::to_string(method)};
        runs.push_back({fmt::format("{} {}", allocator, copy),
                        {{"device", options.device.name},
                         {"allocator", allocator},
                         {"copy strategy", copy},
                         {"workload", workload.name},
                         {"seed", std::to_string(options.seed)}}});
      }
    }
  }
  return {file, fmt::format("millrace footprint {}", first), std::move(runs)};
}

}  // namespace millrace::cli
