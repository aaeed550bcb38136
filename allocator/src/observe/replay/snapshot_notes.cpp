#include "observe/replay/snapshot_notes.hpp"

#include <optional>

#include "millrace/observe/trace_snapshot.hpp"

namespace millrace {

void SnapshotNotes::note_block(std::uint32_t block) {
  if (!trace_.blocks().empty()) blocks_[trace_.blocks().back().id] = block;
}

void SnapshotNotes::note_marks(std::int64_t time_us) {
  if (!log_.snapshot) return;
  const std::vector<trace::TorchMark>& marks = log_.snapshot->marks;
  for (; next_mark_ < marks.size() && marks[next_mark_].time_us <= time_us; ++next_mark_) {
    if (marks[next_mark_].device != device_) continue;
    marks_.push_back(marks[next_mark_]);
    marks_.back().time_us = trace_.time_us(trace_.position());
  }
}

const trace::LoggedBlock* SnapshotNotes::logged(const TracedBlock& block) const {
  const auto known = blocks_.find(block.id);
  return known == blocks_.end() ? nullptr : &log_.blocks[known->second];
}

trace::TorchSnapshot SnapshotNotes::snapshot(const ReplayLanes& lanes) const {
  std::optional<trace::StackCopy> stacks;
  trace::TorchSnapshot snapshot = torch_snapshot(
      trace_, device_,
      {.stack =
           [&](const TracedBlock& block, trace::StackTable& table) {
             if (!stacks) stacks.emplace(log_.stacks, table);
             const trace::LoggedBlock* const known = logged(block);
             return known == nullptr ? trace::StackTable::kNone : stacks->of(known->stack);
           },
       .label =
           [&](const TracedBlock& block, trace::LabelTable& table) {
             const trace::LoggedBlock* const known = logged(block);
             return known == nullptr ? trace::LabelTable::kNone
                                     : table.add(log_.labels.at(known->label));
           },
       .stream = [&](StreamId lane) { return static_cast<std::int64_t>(lanes.handle(lane)); }});
  for (trace::TorchMark mark : marks_) {
    mark.name = snapshot.labels.add(log_.labels.at(mark.name));
    snapshot.marks.push_back(mark);
  }
  return snapshot;
}

}  // namespace millrace
