#include "footprint/page.hpp"

#include <fmt/format.h>

#include "cli/error.hpp"
#include "cli/text.hpp"
#include "page/from_trace.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostRuns = 2;

void check_rows(const FootprintOptions& options) {
  if (!options.device.modelled) {
    throw UsageError{fmt::format("the work of {} is not recorded", options.device.name), "--html",
                     "a virtual device"};
  }
  const std::size_t rows = rows_of(options);
  if (rows <= kMostRuns) return;
  throw UsageError{
      fmt::format("a page shows one run or two, but this command runs {} rows", rows), "--html",
      fmt::format("with --workload {} --allocator torch,millrace --copy {}, for two",
                  options.workloads.front().name, millrace::to_string(options.methods.front()))};
}

std::string gib_text(std::size_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

PageRows ladder_of(const Ladder& ladder) {
  PageRows rows;
  rows.title = "Where the reserved memory went";
  rows.cumulative = true;
  rows.rows = {
      {"requested", ladder.requested, "live bytes that the program asked for", false},
      {"rounded", ladder.rounded, "with the rounding of sizes", false},
      {"ordered", ladder.ordered, "with memory that streams still used", false},
      {"packed", ladder.packed, "with gaps between contiguous blocks", false},
      {"reserved", ladder.reserved, "with what the allocator kept or did not foresee", true}};
  return rows;
}

std::vector<std::string> summary_of(const Ladder& ladder, const experiment::LoopReport& loop) {
  return {fmt::format("At the peak {} were reserved for {} live.", gib_text(ladder.reserved),
                      gib_text(ladder.requested)),
          fmt::format("Of the rest, {} are the cost of streams, {} of contiguous blocks, {} of the "
                      "allocator's decisions, and {} of rounding.",
                      gib_text(ladder.streams()), gib_text(ladder.packing()),
                      gib_text(ladder.policy()), gib_text(ladder.rounding())),
          fmt::format("At the ends of steps, up to {} were free but not usable by main.",
                      gib_text(loop.stranded_peak))};
}

}  // namespace

FootprintPage::FootprintPage(const std::string& file, const FootprintOptions& options)
    : options_((check_rows(options), options)), output_(file), runs_(rows_of(options)) {}

std::function<void(std::size_t, const experiment::RecordedRun&)> FootprintPage::recorder() {
  return [this](std::size_t row, const experiment::RecordedRun& recorded) {
    const experiment::FootprintRun& run = recorded.run;
    PageRun page = page_run(recorded.trace, recorded.recording, run.loop.streams);
    const std::string copy{millrace::to_string(run.method)};
    page.name = fmt::format("{} {}", run.allocator, copy);
    page.meta = {{"device", options_.device.name},
                 {"allocator", run.allocator},
                 {"copy strategy", copy},
                 {"workload", options_.workloads.front().name},
                 {"seed", std::to_string(options_.seed)}};
    if (recorded.recording.left_out > 0) {
      page.meta.emplace_back("operations left out", std::to_string(recorded.recording.left_out));
    }
    page.summary = summary_of(run.ladder, run.loop);
    page.tables = {ladder_of(run.ladder)};
    runs_[row] = std::move(page);
  };
}

void FootprintPage::write(const std::vector<FootprintTable>& tables) {
  PageData data;
  data.title = fmt::format("millrace footprint {}", tables.front().workload.name);
  for (std::optional<PageRun>& run : runs_) {
    if (run) data.runs.push_back(std::move(*run));
  }
  if (!data.runs.empty()) output_.write(data);
}

}  // namespace millrace::cli
