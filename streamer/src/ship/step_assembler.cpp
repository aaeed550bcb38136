#include "ship/step_assembler.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "millrace/streamer/append_rows.hpp"

namespace millrace::ship {

void StepAssembler::add(const CapturedRows& rows) {
  modelled_ += rows.modelled_rows;
  Source& source = sources_[rows.source];
  if (!rows.empty()) {
    Pending& step = pending_[rows.step];
    step.repeats = step.repeats || source.more;
    append_rows(step.rows, rows, rank_.epoch);
  }
  source.more = rows.more;
  if (!rows.more) source.told.push_back({rows.step, rows.missing, rows.marks, rows.size()});
}

std::optional<StepAssembler::Step> StepAssembler::take() {
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  for (const Source& source : sources_) step = std::min(step, source.told.back().step);
  const bool news = std::ranges::any_of(sources_, [&](const Source& source) {
    return source.told.size() > 1 && source.told[1].step <= step;
  });
  if (!news) return std::nullopt;

  Step whole{.batch = rows_up_to(step), .marks = {}};
  StepMark& mark = whole.batch.mark;
  mark = {.version = {rank_.epoch, ++number_},
          .step = step,
          .rank = rank_.rank,
          .ranks = rank_.ranks,
          .rows = whole.batch.size()};
  for (Source& source : sources_) {
    while (source.told.size() > 1 && source.told[1].step <= step) source.told.pop_front();
    const Told& told = source.told.front();
    mark.missing += told.missing;
    // It passed this step over: of what it tells next nobody knows which rows this one had changed.
    if (told.step < step) mark.missing += 1 + source.told[1].rows + source.told[1].missing;
    whole.marks.push_back(source.told.front().marks);
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
