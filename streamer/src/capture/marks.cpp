// What is to be told later: the bits of the bitmap, and what of it the host knows.
#include <algorithm>
#include <utility>

#include "capture/state.hpp"
#include "capture/succeeds.hpp"

namespace millrace {

using namespace capture;

namespace {

/** Of a list, whatever the tables have; a longer one than a quarter of their rows is all of them.
 */
constexpr std::size_t kFewRows = 4096;

}  // namespace

std::uint64_t Capture::State::mark_all() {
  if (rows_.rows() == 0) return 0;  // a rank may have no table
  const std::lock_guard lock{mutex_};
  to_mark_.all = true;
  return to_mark_.calls = ++calls_;
}

std::uint64_t Capture::State::mark(std::span<const TableRow> rows) {
  std::vector<std::uint64_t> own;
  const auto views = source_.bags.tables();
  for (const TableRow& row : rows) {
    const auto found = place_of_.find(row.table);
    if (found == place_of_.end()) continue;
    const TableView& view = views[found->second];
    const std::int64_t here = row.row - view.row_of_whole;
    if (here < 0 || here >= static_cast<std::int64_t>(view.rows)) continue;
    own.push_back(static_cast<std::uint64_t>(view.first_row + here));
  }
  if (own.empty()) return 0;
  const std::lock_guard lock{mutex_};
  if (!to_mark_.all) to_mark_.rows.insert(to_mark_.rows.end(), own.begin(), own.end());
  if (to_mark_.rows.size() > std::max(kFewRows, rows_.rows() / 4)) {
    to_mark_.all = true;
    to_mark_.rows = {};
  }
  return to_mark_.calls = ++calls_;
}

void Capture::State::everything() {
  const std::lock_guard lock{mutex_};
  to_mark_.all = rows_.rows() > 0;
  to_mark_.returned += rows_.rows();
  returned_ += rows_.rows();
  ++counts_.everything_marked;
}

void Capture::State::mark_again(const CapturedRows& rows) {
  const std::lock_guard lock{mutex_};
  try {
    to_mark_.rows.reserve(to_mark_.rows.size() + rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) to_mark_.rows.push_back(rows.id(i));
  } catch (const std::bad_alloc&) {
    to_mark_.all = true;
    ++counts_.everything_marked;
  }
  to_mark_.returned += rows.size();
  returned_ += rows.size();
  counts_.returned_rows += rows.size();
}

void Capture::State::marked(std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  marked_at_ = ++sequence_;
  marked_ += rows;
}

void Capture::State::mark_list(const RowList& list, double rows, StreamRef on) {
  const bool done = succeeds([&] {
    dirty_.mark(list, on);
    marked(list.most);
    ordered_.record(last_, on);
    modelled_missing_ += rows;
  });
  if (done) return;
  failed();
  everything();
}

void Capture::State::apply_marks(StreamRef on) {
  ToMark marks;
  {
    const std::lock_guard lock{mutex_};
    calls_applied_ = std::max(calls_applied_, to_mark_.empty() ? to_mark_.calls : 0);
    marks = std::exchange(to_mark_, {});
  }
  const bool done = succeeds([&] {
    for (Slot& slot : slots_) {
      bool returning = false;
      {
        const std::lock_guard lock{mutex_};
        setting_.executor.acquired(this);
        returning = slot.stage == Slot::Stage::returning;
      }
      if (!returning) continue;
      mark_returned(slot, on);
      set_stage(slot, Slot::Stage::free);
    }
    if (marks.empty()) return;
    if (marks.all) {
      std::uint64_t first = 0;
      for (std::size_t t = 0; t < source_.tables.size(); ++t) {
        const TableView& view = source_.bags.tables()[t];
        const auto begin = static_cast<std::uint64_t>(view.first_row);
        if (!rows_.skips(t)) continue;
        dirty_.mark(first, begin, on);
        first = begin + view.rows;
      }
      dirty_.mark(first, rows_.rows(), on);
      modelled_missing_ = static_cast<double>(rows_.rows());
    } else {
      dirty_.mark(marks.rows, setting_.pinned, on);
      modelled_missing_ += static_cast<double>(marks.rows.size());
    }
    marked(marks.all ? rows_.rows() : marks.rows.size());
    ordered_.record(last_, on);
  });
  const std::lock_guard lock{mutex_};
  if (done) {
    calls_applied_ = std::max(calls_applied_, marks.calls);
    returned_applied_ += marks.returned;
    return;
  }
  ++counts_.failures;
  to_mark_.all = to_mark_.all || marks.all;
  to_mark_.rows.insert(to_mark_.rows.end(), marks.rows.begin(), marks.rows.end());
  to_mark_.calls = std::max(to_mark_.calls, marks.calls);
  to_mark_.returned += marks.returned;
}

// The ids of a slot that could not be told are in it still.
void Capture::State::mark_returned(Slot& slot, StreamRef on) {
  const SlotMemory memory = slot.memory();
  dirty_.mark({memory.data + rows_.header_bytes(),
               reinterpret_cast<const std::uint32_t*>(memory.data), rows_.most_rows(memory.bytes)},
              on);
  marked(slot.returned);
  modelled_missing_ += static_cast<double>(slot.expected.rows);
  ordered_.record(last_, on);
  const std::lock_guard lock{mutex_};
  returned_applied_ += std::exchange(slot.returned, 0);
}

}  // namespace millrace
