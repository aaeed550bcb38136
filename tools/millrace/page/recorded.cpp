#include "page/recorded.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/error.hpp"
#include "cli/trace_output.hpp"
#include "explain/page_tables.hpp"
#include "explain/sentences.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "page/from_trace.hpp"
#include "page/ladder.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostRuns = 2;

}  // namespace

void check_page_runs(std::size_t count, const std::string& runs, const std::string& two) {
  if (count <= kMostRuns) return;
  throw UsageError{fmt::format("a page shows one run or two, but this command has {}", runs),
                   "--html", fmt::format("with {}, for two", two)};
}

void check_page_device(const std::string& device, bool modeled) {
  if (modeled) return;
  throw UsageError{fmt::format("the work of {} is not recorded", device), "--html",
                   "a virtual device"};
}

RecordedPage::RecordedPage(const std::string& file, std::string title, std::vector<PlannedRun> runs)
    : output_(file), title_(std::move(title)), planned_(std::move(runs)), taken_(planned_.size()) {}

void RecordedPage::take(std::size_t index, const experiment::RecordedRun& recorded) {
  std::optional<Taken>& taken = taken_.at(index);
  const std::size_t reserved = recorded.ladder.reserved;
  const std::size_t most = taken ? taken->ladder.reserved : 0;
  const bool is_more =
      !taken || reserved > most || (reserved == most && recorded.rank < taken->rank);
  if (!is_more) return;
  PageRun run = page_run(recorded.trace, &recorded.recording, recorded.streams, recorded.steps);
  run.name = planned_[index].name;
  run.meta = planned_[index].meta;
  const std::size_t left_out = recorded.recording.left_out;
  if (left_out > 0) run.meta.emplace_back("operations left out", std::to_string(left_out));
  add_sentences(run, ladder_sentences(recorded.ladder));
  if (recorded.stranded_peak) {
    add_sentences(run, {fmt::format("At the ends of steps, up to {} were freed, but waiting or "
                                    "stranded for main.",
                                    format_bytes(*recorded.stranded_peak))});
  }
  run.tables = {page_ladder(recorded.ladder)};
  const auto name_of = [&](StreamId stream) {
    const auto known = recorded.streams.find(stream);
    return known == recorded.streams.end() ? std::string{} : known->second;
  };
  taken =
      Taken{.rank = recorded.rank,
            .ladder = recorded.ladder,
            .trace = render_trace(recorded.trace, {.bytes = 0, .name = {}, .stream_name = name_of}),
            .run = std::move(run)};
}

/** Adds the bytes that other allocators would have reserved, as `explain` computes them from the
 * run's trace. */
void RecordedPage::explain(std::size_t shown) {
  Taken& taken = *taken_[shown];
  const std::string& name = taken.run.name;
  const ExplainedFile explained =
      explain_log(name, trace::parse_trace(std::move(taken.trace), name), Replays::rows);
  const bool any = !explained.devices.empty();
  const ExplainedDevice* const device = any ? &explained.devices.front() : nullptr;
  taken.run.tables.push_back(compared(shown, device));
  if (!any) return;
  // The trace lacks the reserved bytes of the driver's pool, so advice would have no baseline.
  if (device->memory.peak.reserved)
    add_sentences(taken.run, advice_sentences(explained, *device, false));
  for (const std::string& note : device->notes) taken.run.meta.emplace_back("note", note);
  if (!device->left_out.empty()) taken.run.meta.emplace_back("left out", device->left_out);
}

// The reserved bytes of this run, of the other run and of the replays, and the lower bounds for any
// allocator.
PageRows RecordedPage::compared(std::size_t shown, const ExplainedDevice* explained) const {
  PageRows rows{.title = "What is reserved for this work", .rows = {}};
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (!taken_[i]) continue;
    rows.rows.push_back({.label = taken_[i]->run.name,
                         .bytes = taken_[i]->ladder.reserved,
                         .note = i == shown ? "this run" : "the other run"});
  }
  if (explained != nullptr) {
    for (PageRow& row : what_if_rows(*explained)) {
      row.label += ", replayed";
      rows.rows.push_back(std::move(row));
    }
  }
  const Ladder& ladder = taken_[shown]->ladder;
  rows.rows.push_back({.label = "packed offline",
                       .bytes = ladder.packed,
                       .note = "this run's blocks in the best layout found, with its order of "
                               "streams"});
  rows.rows.push_back({.label = "this run's blocks, at least",
                       .bytes = ladder.ordered,
                       .note = "whoever places them; with the order of streams and the rounding of "
                               "this run, which replays do not have"});
  rows.rows.push_back({.label = "most live at once",
                       .bytes = ladder.requested,
                       .note = "nothing can hold the requests in less"});
  return rows;
}

void RecordedPage::write() {
  PageData data;
  data.title = title_;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) explain(i);
  }
  for (std::optional<Taken>& taken : taken_) {
    if (taken) data.runs.push_back(std::move(taken->run));
  }
  if (!data.runs.empty()) output_.write(data);
}

}  // namespace millrace::cli
