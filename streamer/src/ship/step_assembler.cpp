#include "ship/step_assembler.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "millrace/streamer/append_rows.hpp"

namespace millrace::ship {

void StepAssembler::add(const CapturedRows& rows) {
  modeled_ += rows.modeled_rows;
  Source& source = sources_[rows.source];
  if (!rows.empty()) {
    Pending& step = pending_[rows.step];
    step.repeats = step.repeats || source.more;
    append_rows(step.rows, rows, rank_.epoch);
  }
  source.more = rows.more;
  if (!rows.more) source.steps.push_back({rows.step, rows.missing, rows.requests, rows.size()});
}

std::optional<StepAssembler::Step> StepAssembler::take() {
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  // A step is complete once every source has delivered it, or a later one.
  for (const Source& source : sources_) step = std::min(step, source.steps.back().step);
  const bool news = std::ranges::any_of(sources_, [&](const Source& source) {
    return source.steps.size() > 1 && source.steps[1].step <= step;
  });
  if (!news) return std::nullopt;

  Step whole{.batch = rows_up_to(step), .requests = {}};
  StepCommit& commit = whole.batch.commit;
  commit = {.version = {rank_.epoch, ++number_},
            .step = step,
            .rank = rank_.rank,
            .ranks = rank_.ranks,
            .rows = whole.batch.size()};
  for (Source& source : sources_) {
    while (source.steps.size() > 1 && source.steps[1].step <= step) source.steps.pop_front();
    const SourceStep& last = source.steps.front();
    commit.missing += last.missing;
    // The source skipped this step: its next rows may include rows that this step had changed.
    if (last.step < step) commit.missing += 1 + source.steps[1].rows + source.steps[1].missing;
    whole.requests.push_back(source.steps.front().requests);
  }
  return whole;
}

StepBatch StepAssembler::rows_up_to(std::uint64_t step) {
  const auto end = pending_.upper_bound(step);
  const auto count = std::distance(pending_.begin(), end);
  StepBatch rows;
  if (count == 1 && !pending_.begin()->second.repeats) {
    rows = std::move(pending_.begin()->second.rows);
  } else if (count > 0) {
    Backlog several;
    for (auto at = pending_.begin(); at != end; ++at) several.add(at->second.rows);
    rows = several.take();
  }
  pending_.erase(pending_.begin(), end);
  return rows;
}

}  // namespace millrace::ship
