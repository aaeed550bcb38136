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
  // A log may contain a batch twice, and a copy may go back to an earlier stored position.
  const bool repeat = newest >= commit.version;
  const bool gone = is_gone(commit);
  if (!gone && commit.version >= newest) not_found_.erase(commit.rank);
  if (!repeat && !gone) prepared.lost = what_is_lost(prepared.next);
  if (!repeat && snapshot_began(commit)) gaps.erase(commit.rank);
  if (commit.version.epoch >= copied_.newest_epoch()) {
    // A newer trainer has fewer ranks: they have taken over the rows of the ranks beyond.
    std::erase_if(gaps, [&](const auto& gap_of) { return gap_of.first >= commit.ranks; });
    not_found_.erase(not_found_.lower_bound(commit.ranks), not_found_.end());
  }
  if (!prepared.lost.empty() && !gaps.emplace(commit.rank, commit.answers).second) {
    prepared.lost.clear();  // a snapshot was requested before
  }
  if (gone) commit.after = {};
  if (gaps.contains(commit.rank)) {
    commit.after = {};  // otherwise the copy would refuse it
    // It is unknown which rows were lost: any may be missing until the snapshot has arrived.
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

bool CopyProgress::complete() const {
  // Nothing was lost, all ranks have committed, and no row is missing.
  return position_.gaps.empty() && not_found_.empty() && copied_.committed_by_all() &&
         copied_.missing() == 0;
}

bool CopyProgress::is_kept_by(const SinkState& there) const {
  return std::ranges::all_of(copied_.commits, [&](const auto& of_rank) {
    const auto found = there.commits.find(of_rank.first);
    return found != there.commits.end() && found->second.version >= of_rank.second.version;
  });
}

/**
 * Returns whether a snapshot of the rank began after the gap. The commit that began it may be
 * compacted away; then a later commit shows it by the request that it answers.
 */
bool CopyProgress::snapshot_began(const StepCommit& commit) const {
  const auto gap = position_.gaps.find(commit.rank);
  return gap != position_.gaps.end() &&
         (commit.after == Version{} || commit.answers != gap->second);
}

/** Returns whether the rank no longer exists: a later trainer with fewer ranks has its rows. */
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
