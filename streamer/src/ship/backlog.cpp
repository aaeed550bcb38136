#include "ship/backlog.hpp"

#include <limits>
#include <utility>

namespace millrace::ship {

void Backlog::begin(StepBatch first) {
  commit_ = first.commit;
  rows_ = std::move(first);
  steps_ = 1;
}

/**
 * Called for the second step, not for the first: if the sink keeps up, a second step rarely waits.
 */
void Backlog::index_first() {
  for (std::size_t i = index_.size(); i < rows_.size(); ++i) {
    static_cast<void>(index_.find_or_add(key_of(rows_.row(i)), rows_));
  }
}

std::uint64_t Backlog::add(const StepBatch& next) {
  StepBatch none;
  return add(next, std::numeric_limits<std::size_t>::max(), none);
}

std::uint64_t Backlog::add(const StepBatch& next, std::size_t room, StepBatch& no_room) {
  index_first();
  // The merged step continues the chain where its first step did, and ends with the newest commit.
  const Version after = empty() ? next.commit.after : commit_.after;
  commit_ = next.commit;
  commit_.after = after;
  ++steps_;
  std::uint64_t superfluous = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const RowKey key = key_of(next.row(i));
    const std::size_t older = index_.find_or_add(key, rows_);
    if (older != RowIndex::kNone) {
      // A sink keeps only the newest version of a row, so the older one need not be sent.
      rows_.replace(older, next.record(i));
      ++superfluous;
    } else if (next.record(i).size() > room || rows_.bytes() > room - next.record(i).size()) {
      // The row does not fit, so the index must not contain it.
      index_.forget_last(key);
      no_room.add_encoded(next.record(i));
    } else {
      rows_.add_encoded(next.record(i));
    }
  }
  return superfluous;
}

StepBatch Backlog::take() {
  StepBatch all = std::move(rows_);
  const std::uint64_t rows = all.size();
  all.commit = commit_;
  all.commit.rows = rows;
  *this = {};
  return all;
}

}  // namespace millrace::ship
