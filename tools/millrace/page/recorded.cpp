#include "page/recorded.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/error.hpp"
#include "millrace/memory/byte_size.hpp"
#include "page/from_trace.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostRuns = 2;

}  // namespace

void check_page_runs(std::size_t count, const std::string& runs, const std::string& two) {
  if (count <= kMostRuns) return;
  throw UsageError{fmt::format("a page shows one run or two, but this command has {}", runs),
                   "--html", fmt::format("with {}, for two", two)};
}

void check_page_device(const std::string& device, bool modelled) {
  if (modelled) return;
  throw UsageError{fmt::format("the work of {} is not recorded", device), "--html",
                   "a virtual device"};
}

PageRows page_ladder(const Ladder& ladder) {
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

std::vector<std::string> ladder_sentences(const Ladder& ladder) {
  return {fmt::format("At most {} were reserved, and at most {} were live at once.",
                      format_bytes(ladder.reserved), format_bytes(ladder.requested)),
          fmt::format("Of the rest, {} are the cost of streams, {} of contiguous blocks, {} of the "
                      "allocator's decisions, and {} of rounding.",
                      format_bytes(ladder.streams()), format_bytes(ladder.packing()),
                      format_bytes(ladder.policy()), format_bytes(ladder.rounding()))};
}

RecordedPage::RecordedPage(const std::string& file, std::string title, std::vector<PlannedRun> runs)
    : output_(file), title_(std::move(title)), planned_(std::move(runs)), taken_(planned_.size()) {}

void RecordedPage::take(std::size_t index, const experiment::RecordedRun& recorded) {
  std::optional<Taken>& taken = taken_.at(index);
  const std::size_t reserved = recorded.ladder.reserved;
  const bool is_more = !taken || reserved > taken->reserved ||
                       (reserved == taken->reserved && recorded.rank < taken->rank);
  if (!is_more) return;
  PageRun run = page_run(recorded.trace, &recorded.recording, recorded.streams);
  run.name = planned_[index].name;
  run.meta = planned_[index].meta;
  const std::size_t left_out = recorded.recording.left_out;
  if (left_out > 0) run.meta.emplace_back("operations left out", std::to_string(left_out));
  run.summary = ladder_sentences(recorded.ladder);
  if (recorded.stranded_peak) {
    run.summary.push_back(
        fmt::format("At the ends of steps, up to {} were freed, but waiting or stranded for main.",
                    format_bytes(*recorded.stranded_peak)));
  }
  run.tables = {page_ladder(recorded.ladder)};
  taken = Taken{recorded.rank, reserved, std::move(run)};
}

// What this run reserved, what the other one did, and what no allocator can be better than.
PageRows RecordedPage::compared(std::size_t shown) const {
  PageRows rows{.title = "What is reserved for this work", .rows = {}};
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (!taken_[i]) continue;
    rows.rows.push_back({.label = taken_[i]->run.name,
                         .bytes = taken_[i]->reserved,
                         .note = i == shown ? "this run" : "the other run",
                         .emphasized = i == shown});
  }
  const PageRows& ladder = taken_[shown]->run.tables.front();
  const auto add = [&](const char* level, const char* label, const char* note) {
    const auto row = std::ranges::find(ladder.rows, level, &PageRow::label);
    if (row != ladder.rows.end())
      rows.rows.push_back({.label = label, .bytes = row->bytes, .note = note});
  };
  add("packed", "packed offline",
      "this run's blocks in the best layout found, with its order of streams");
  add("ordered", "any allocator, at least",
      "with the order of streams and the rounding of this run");
  add("requested", "most live at once", "nothing can hold the requests in less");
  return rows;
}

void RecordedPage::write() {
  PageData data;
  data.title = title_;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) taken_[i]->run.tables.push_back(compared(i));
  }
  for (std::optional<Taken>& taken : taken_) {
    if (taken) data.runs.push_back(std::move(taken->run));
  }
  if (!data.runs.empty()) output_.write(data);
}

}  // namespace millrace::cli
