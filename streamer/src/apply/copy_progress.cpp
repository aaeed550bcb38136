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
  for (const auto& [rank, commit] : copied_.commits) {
    if (commit.version.epoch == epoch) not_found_.insert(rank);
  }
}

Prepared CopyProgress::prepare(RecordSource::Next next) {
  Prepared prepared{.next = std::move(next), .position = position_};
  StepCommit& commit = prepared.next.batch.commit;
  auto& gaps = prepared.position.gaps;
  prepared.position.source = prepared.next.position;
  const Version newest = newest_of(commit.rank);
  // A log may have a batch twice, and a copy goes back to the last position that it has kept.
  const bool repeat = newest >= commit.version;
  const bool gone = is_gone(commit);
  if (!gone && commit.version >= newest) not_found_.erase(commit.rank);
  if (!repeat && !gone) prepared.lost = what_is_lost(prepared.next);
  if (!repeat && snapshot_began(commit)) gaps.erase(commit.rank);
  if (commit.version.epoch >= copied_.newest_epoch()) {
    // Ranks that no longer exist: the newer trainer has fewer, which have taken over their rows.
    std::erase_if(gaps, [&](const auto& gap_of) { return gap_of.first >= commit.ranks; });
    not_found_.erase(not_found_.lower_bound(commit.ranks), not_found_.end());
  }
  if (!prepared.lost.empty() && !gaps.emplace(commit.rank, commit.answers).second) {
    prepared.lost.clear();  // a snapshot was requested before
  }
  if (gone) commit.after = {};
  if (gaps.contains(commit.rank)) {
    commit.after = {};  // so that the copy accepts it
    // It is unknown which rows were lost, so any may be missing until the snapshot is here.
    commit.missing = std::max(commit.missing, all_rows_);
  }
  return prepared;
}

void CopyProgress::applied(Prepared prepared) {
  const StepCommit& commit = prepared.next.batch.commit;
  StepCommit& newest = copied_.commits[commit.rank];
  if (newest.version < commit.version) newest = commit;
  position_ = std::move(prepared.position);
}

bool CopyProgress::whole() const {
  // Nothing was lost, all ranks have committed, and none of them owes a row.
  return position_.gaps.empty() && not_found_.empty() && copied_.counts() && copied_.missing() == 0;
}

bool CopyProgress::is_kept_by(const SinkState& there) const {
  return std::ranges::all_of(copied_.commits, [&](const auto& of_rank) {
    const auto found = there.commits.find(of_rank.first);
    return found != there.commits.end() && found->second.version >= of_rank.second.version;
  });
}

/** True if a snapshot began after the gap: the commit that began it may be compacted away. */
bool CopyProgress::snapshot_began(const StepCommit& commit) const {
  const auto gap = position_.gaps.find(commit.rank);
  return gap != position_.gaps.end() &&
         (commit.after == Version{} || commit.answers != gap->second);
}

/** A rank that no longer exists: the ranks that came after it have delivered all rows. */
bool CopyProgress::is_gone(const StepCommit& commit) const {
  return std::ranges::any_of(copied_.commits, [&](const auto& of_rank) {
    const StepCommit& newer = of_rank.second;
    return newer.version.epoch > commit.version.epoch && newer.ranks <= commit.rank;
  });
}

/** Describes what is missing between the rank's newest commit in the copy and this one. */
std::string CopyProgress::what_is_lost(const RecordSource::Next& next) const {
  const StepCommit& commit = next.batch.commit;
  const Version newest = newest_of(commit.rank);
  if (!next.lost.empty() || commit.after == Version{} || commit.after == newest) return next.lost;
  return fmt::format("{}: the next batch of rank {} continues {}, but the copy has {}", source_,
                     commit.rank, to_string(commit.after),
                     newest == Version{} ? "nothing" : to_string(newest));
}

Version CopyProgress::newest_of(std::uint32_t rank) const {
  const auto found = copied_.commits.find(rank);
  return found == copied_.commits.end() ? Version{} : found->second.version;
}

}  // namespace millrace::apply
