#include "replay/page.hpp"

#include <fmt/format.h>

#include "page/from_trace.hpp"
#include "page/ladder.hpp"
#include "page/recorded.hpp"
#include "replay/advice.hpp"

namespace millrace::cli {
namespace {

/** The reserved bytes of all rows, and the lower bounds for any allocator. */
PageRows compared(const ReplayedDevice& device, const ReplayReport& shown, bool is_snapshot) {
  PageRows rows{.title = "What is reserved for these requests", .rows = {}};
  if (shown.recorded_peak) {
    rows.rows.push_back({.label = is_snapshot ? "PyTorch, recorded" : "as it ran",
                         .bytes = shown.recorded_peak,
                         .note = "the peak in the file"});
  }
  for (const ReplayRow& row : device.rows) {
    const bool is_shown = row.ok() && &*row.report == &shown;
    rows.rows.push_back({.label = row.name, .bytes = {}, .note = row.failure});
    if (row.ok()) rows.rows.back().bytes = row.report->statistics.bytes.reserved.peak;
    rows.rows.back().emphasized = is_shown;
  }
  rows.rows.push_back({.label = "packed offline",
                       .bytes = shown.packed,
                       .note = "the best layout found, with knowledge of the future"});
  rows.rows.push_back({.label = "most live at once",
                       .bytes = shown.load,
                       .note = "nothing can hold the requests in less"});
  return rows;
}

}  // namespace

void ReplayPage::check(const trace::AllocationLog& log,
                       const std::vector<std::string>& allocators) {
  const std::size_t devices = devices_of(log).size();
  check_page_runs(
      devices * allocators.size(),
      fmt::format("{} allocators on {} devices of the file", allocators.size(), devices),
      "--allocator " + allocators.front() + " and a file of two devices");
}

ReplayTraced ReplayPage::tracer() {
  return [this](const std::string& allocator, std::uint32_t device, const AllocationTrace& trace,
                const std::map<StreamId, std::string>& streams) {
    runs_[{device, allocator}] = page_run(trace, nullptr, streams);
  };
}

void ReplayPage::write(const ReplayedFile& file) {
  PageData page;
  page.title = "millrace replay " + file.file;
  for (const ReplayedDevice& device : file.devices) {
    for (const ReplayRow& row : device.rows) {
      const auto run = runs_.find({device.device, row.allocator});
      if (!row.ok() || row.start != ReplayStart::live_blocks || run == runs_.end()) continue;
      PageRun shown = std::move(run->second);
      shown.name = row.allocator;
      if (file.devices.size() > 1) shown.name += fmt::format(", device {}", device.device);
      shown.meta = {{"file", file.file},
                    {"format", trace::to_string(file.format)},
                    {"allocator", row.allocator},
                    {"start", "the blocks that were live, and no cache"}};
      add_sentences(shown, ladder_sentences(row.report->ladder));
      add_sentences(shown, replay_advice(device, Painter{false}));
      const bool is_snapshot = file.format == trace::TraceFormat::torch_snapshot;
      shown.tables = {page_ladder(row.report->ladder), compared(device, *row.report, is_snapshot)};
      page.runs.push_back(std::move(shown));
    }
  }
  if (!page.runs.empty()) output_.write(page);
}

}  // namespace millrace::cli
