#include "apply/copy_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::apply {

void CopyProgress::begin(SinkState copy) {
  position_ = parse_position(copy.position);
  copied_ = std::move(copy);
  not_found_.clear();
}

void CopyProgress::lose_place() {
  const std::uint64_t epoch = copied_.newest_epoch();
  for (const auto& [rank, mark] : copied_.marks) {
    if (mark.version.epoch == epoch) not_found_.insert(rank);
  }
}

Prepared CopyProgress::prepare(RecordSource::Next next) {
  Prepared prepared{.next = std::move(next), .position = position_};
  StepMark& mark = prepared.next.batch.mark;
  auto& gaps = prepared.position.gaps;
  prepared.position.source = prepared.next.position;
  const Version newest = newest_of(mark.rank);
  const bool repeat = newest >= mark.version;
  const bool gone = is_gone(mark);
  if (!gone && mark.version >= newest) not_found_.erase(mark.rank);
  if (!repeat && !gone) prepared.lost = what_is_lost(prepared.next);
  if (!repeat && snapshot_began(mark)) gaps.erase(mark.rank);
  if (mark.version.epoch >= copied_.newest_epoch()) {
    std::erase_if(gaps, [&](const auto& gap_of) { return gap_of.first >= mark.ranks; });
    not_found_.erase(not_found_.lower_bound(mark.ranks), not_found_.end());
  }
  if (!prepared.lost.empty() && !gaps.emplace(mark.rank, mark.answers).second) {
    prepared.lost.clear();  // all was asked for before
  }
  if (gone) mark.after = {};
  if (gaps.contains(mark.rank)) {
    mark.after = {};  // so that the copy takes it
    mark.missing = std::max(mark.missing, all_rows_);
  }
  return prepared;
}

void CopyProgress::applied(Prepared prepared) {
  const StepMark& mark = prepared.next.batch.mark;
  StepMark& newest = copied_.marks[mark.rank];
  if (newest.version < mark.version) newest = mark;
  position_ = std::move(prepared.position);
}

bool CopyProgress::whole() const {
  return position_.gaps.empty() && not_found_.empty() && copied_.counts() && copied_.missing() == 0;
}

bool CopyProgress::is_kept_by(const SinkState& there) const {
  return std::ranges::all_of(copied_.marks, [&](const auto& of_rank) {
    const auto found = there.marks.find(of_rank.first);
    return found != there.marks.end() && found->second.version >= of_rank.second.version;
  });
}

/** Whether one has since the gap: the mark that began it may be gone, compacted away. */
bool CopyProgress::snapshot_began(const StepMark& mark) const {
  const auto gap = position_.gaps.find(mark.rank);
  return gap != position_.gaps.end() && (mark.after == Version{} || mark.answers != gap->second);
}

/** A rank that no longer exists: the ranks that came after it have told all rows. */
bool CopyProgress::is_gone(const StepMark& mark) const {
  return std::ranges::any_of(copied_.marks, [&](const auto& of_rank) {
    const StepMark& newer = of_rank.second;
    return newer.version.epoch > mark.version.epoch && newer.ranks <= mark.rank;
  });
}

/** What is lacking between what the copy has of the rank and what comes after this. */
std::string CopyProgress::what_is_lost(const RecordSource::Next& next) const {
  const StepMark& mark = next.batch.mark;
  const Version newest = newest_of(mark.rank);
  if (!next.lost.empty() || mark.after == Version{} || mark.after == newest) return next.lost;
  return fmt::format("{}: of rank {} what goes after {} follows {}", source_, mark.rank,
                     to_string(mark.after), newest == Version{} ? "nothing" : to_string(newest));
}

Version CopyProgress::newest_of(std::uint32_t rank) const {
  const auto found = copied_.marks.find(rank);
  return found == copied_.marks.end() ? Version{} : found->second.version;
}

}  // namespace millrace::apply
