#include "capture/dirty_marker.hpp"

#include <cmath>
#include <utility>

#include "capture/succeeds.hpp"

namespace millrace::capture {

DirtyMarker::DirtyMarker(const CaptureEnvironment& environment, DirtyRows& bitmap,
                         Gatherer& gatherer, SharedParts& shared, CaptureStreams& streams)
    : environment_(environment),
      bitmap_(bitmap),
      gatherer_(gatherer),
      shared_(shared),
      streams_(streams) {}

void DirtyMarker::mark_dirty(const RowList& list, double rows, StreamRef on) {
  const bool done = succeeds([&] {
    bitmap_.mark_dirty(list, on);
    shared_.dirty.marked(list.most);
    streams_.operated(on);
    modeled_missing_ += rows;
  });
  if (done) return;
  shared_.counters.failed();
  // It is unknown which of the rows were marked.
  shared_.return_all();
}

void DirtyMarker::apply_pending(StreamRef on) {
  // Only the training thread enqueues work on the bitmap; other threads only make requests.
  const PendingRows pending = shared_.dirty.take_pending();
  const bool done = succeeds([&] {
    for (std::size_t i = 0; i < shared_.slots.size(); ++i) {
      Slot& slot = shared_.slots[i];
      if (!shared_.slots.returning(slot)) continue;
      mark_returned(slot, on);
      shared_.slots.set(slot, Slot::Stage::free);
    }
    if (pending.empty()) return;
    if (pending.all) {
      mark_all(on);
    } else {
      bitmap_.mark_dirty(pending.rows, environment_.pinned, on);
      modeled_missing_ += static_cast<double>(pending.rows.size());
    }
    shared_.dirty.marked(pending.all ? gatherer_.rows().rows() : pending.rows.size());
    streams_.operated(on);
  });
  if (done) return shared_.dirty.applied(pending);
  shared_.counters.failed();
  shared_.dirty.put_back(pending);
}

// Rows of skipped tables are never dirty.
void DirtyMarker::mark_all(StreamRef on) {
  const SourceRows& rows = gatherer_.rows();
  std::uint64_t first = 0;
  for (std::size_t t = 0; t < rows.tables().size(); ++t) {
    if (!rows.skips(t)) continue;
    const SourceTable& table = rows.tables()[t];
    const auto begin = static_cast<std::uint64_t>(table.first_row);
    bitmap_.mark_dirty(first, begin, on);
    first = begin + static_cast<std::uint64_t>(table.rows);
  }
  bitmap_.mark_dirty(first, rows.rows(), on);
  modeled_missing_ = static_cast<double>(rows.rows());
}

// The slot still has the ids of the rows that could not be delivered.
void DirtyMarker::mark_returned(Slot& slot, StreamRef on) {
  const SlotMemory memory = slot.memory();
  const SourceRows& rows = gatherer_.rows();
  bitmap_.mark_dirty(
      {memory.data + rows.header_bytes(), reinterpret_cast<const std::uint32_t*>(memory.data),
       rows.most_rows(memory.bytes)},
      on);
  shared_.dirty.marked(slot.returned);
  modeled_missing_ += static_cast<double>(slot.expected.rows);
  streams_.operated(on);
  shared_.dirty.marked_returned(std::exchange(slot.returned, 0));
}

bool DirtyMarker::pick(PickedRows& picked, std::size_t most, StreamRef on) {
  const bool picks = succeeds([&] {
    picked.rows = bitmap_.collect(most, on);
    picked.locate(gatherer_.rows().bags(), on);
  });
  if (picks) return true;
  shared_.counters.failed();
  return false;
}

GatheredRows DirtyMarker::gathered(const PickedRows& picked) {
  if (!gatherer_.cost_only()) {
    const auto expected = static_cast<double>(shared_.dirty.missing_at_header());
    return picked.gathered(gatherer_.rows(), expected);
  }
  const double expected = std::exchange(modeled_missing_, 0);
  const GatheredRows rows = picked.gathered(gatherer_.rows(), expected);
  modeled_missing_ = expected - rows.rows;
  return rows;
}

void DirtyMarker::expect(Slot& slot, const GatheredRows& rows) {
  if (!gatherer_.cost_only()) return;
  modeled_missing_ += gatherer_.expect(slot, rows);
  slot.expected.missing = static_cast<std::uint64_t>(std::ceil(modeled_missing_));
}

}  // namespace millrace::capture
