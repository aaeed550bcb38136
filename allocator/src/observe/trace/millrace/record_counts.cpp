#include "observe/trace/millrace/record_counts.hpp"

#include "millrace/observe/trace/allocation_log.hpp"
#include "observe/trace/millrace/record_cursor.hpp"

namespace millrace::trace {

RecordCounts::RecordCounts(std::string_view bytes) {
  RecordCursor cursor{bytes};
  for (RawRecord record; cursor.next(record);) ++counts_[static_cast<unsigned char>(record.kind)];
}

// Twice the allocations: a block whose free was not seen gets an event for its end, which no record
// has. Each block has at most one.
std::size_t RecordCounts::events() const {
  return 2 * (*this)[RecordKind::allocated] + (*this)[RecordKind::freed] +
         (*this)[RecordKind::completed] + (*this)[RecordKind::failed] +
         (*this)[RecordKind::reserved] + (*this)[RecordKind::released] +
         (*this)[RecordKind::device_reset];
}

std::size_t RecordCounts::order() const {
  std::size_t sum = 0;
  for (auto kind = static_cast<unsigned>(RecordKind::used);
       kind <= static_cast<unsigned>(RecordKind::closed); ++kind)
    sum += counts_[kind];
  for (const RecordKind kind : {RecordKind::pool_keeps, RecordKind::pool_trimmed,
                                RecordKind::not_passed, RecordKind::stream_not_passed})
    sum += (*this)[kind];
  return sum;
}

std::uint64_t RecordCounts::memory() const {
  constexpr std::uint64_t of_live = 96, of_table = 256;
  return (*this)[RecordKind::allocated] * (sizeof(LoggedBlock) + of_live) +
         (*this)[RecordKind::reserved] * of_live + events() * sizeof(LogEvent) +
         order() * sizeof(LoggedOrder) +
         ((*this)[RecordKind::stream] + (*this)[RecordKind::frame] + (*this)[RecordKind::stack] +
          (*this)[RecordKind::label]) *
             of_table;
}

}  // namespace millrace::trace
