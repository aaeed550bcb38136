#include "ship/resume.hpp"

#include <algorithm>
#include <utility>

namespace millrace::ship {
namespace {

constexpr std::size_t kRowsAtOnce = 4096;

}  // namespace

bool goes_on(const SinkState& there, const StreamBeginning& beginning) {
  const Version last = beginning.lineage.last();
  if (last == Version{}) return false;
  std::uint32_t ranks = 0;
  const bool all = std::ranges::all_of(there.commits, [&](const auto& of_rank) {
    const StepCommit& commit = of_rank.second;
    // An earlier trainer with more ranks wrote this commit; later trainers have taken over its
    // rows.
    if (commit.rank >= beginning.ranks && commit.version.epoch < there.newest_epoch()) return true;
    ++ranks;
    // Another rank of this trainer committed first.
    const bool ours = commit.version.epoch == beginning.epoch;
    const bool after = commit.version.epoch == last.epoch && commit.step >= last.step;
    return commit.ranks == beginning.ranks &&
           (ours || (commit.missing == 0 && (after || commit.base == last)));
  });
  return all && ranks == beginning.ranks;
}

PresentRows::PresentRows(const StreamSchema& schema) {
  for (const StreamedTable& table : schema.tables) {
    tables_.emplace_back(static_cast<std::size_t>(table.rows));
  }
}

void PresentRows::add(std::uint32_t table, std::int64_t row) {
  if (table >= tables_.size() || row < 0) return;
  const auto at = static_cast<std::size_t>(row);
  if (at < tables_[table].size()) tables_[table][at] = true;
}

void PresentRows::visit_absent(const std::function<void(const StepBatch&)>& visit) const {
  RowBatches batches{visit};
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    for (std::size_t row = 0; row < tables_[table].size(); ++row) {
      if (tables_[table][row]) continue;
      batches.add(static_cast<std::uint32_t>(table), static_cast<std::int64_t>(row));
    }
  }
  batches.finish();
}

void RowBatches::add(std::uint32_t table, std::int64_t row, Version version) {
  some_.add({.version = version, .table = table, .row = row});
  if (some_.size() == kRowsAtOnce) finish();
}

void RowBatches::finish() {
  if (!some_.empty()) visit_(std::exchange(some_, {}));
}

}  // namespace millrace::ship
