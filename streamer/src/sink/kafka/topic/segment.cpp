#include "sink/kafka/topic/segment.hpp"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "record/row_key.hpp"

namespace millrace::sink {

std::uint64_t different_rows(const StepBatch& rows) {
  std::unordered_set<RowKey, RowKeyHash> keys;
  for (std::size_t i = 0; i < rows.size(); ++i) keys.insert(key_of(rows.row(i)));
  return keys.size();
}

void prepend(const Segment& earlier, Segment& later) {
  for (std::size_t i = 0; i < earlier.rows.size(); ++i) {
    later.rows.add_encoded(earlier.rows.record(i));
  }
  later.first = earlier.first;
  later.gap = later.gap || earlier.gap;
  later.cut = later.cut || earlier.cut;
  later.damaged = true;
}

void look_for_lacking(const std::vector<Segment>& segments, Version before, Lacking& lacking) {
  for (const Segment& segment : segments) {
    const StepCommit& commit = *segment.commit;
    const bool exact = !segment.gap && segment.rows.size() == commit.rows;
    const std::uint64_t there = exact ? commit.rows : different_rows(segment.rows);
    std::uint64_t rows = there < commit.rows ? commit.rows - there : 0;
    std::string what = fmt::format("of {} rows of rank {} with {} {} are there", commit.rows,
                                   commit.rank, to_string(commit.version), there);
    if (rows == 0 && commit.after > before) {
      rows = 1;  // at least; the number of rows before the missing commits is unknown
      what = fmt::format("the batch of rank {} continues {}, but follows {}", commit.rank,
                         to_string(commit.after), to_string(before));
    }
    before = commit.version;
    if (rows == 0 && segment.damaged && !exact) {
      rows = 1;  // rows that seem to be there may be outdated
      what = "one of them is a message that Millrace did not write";
    }
    if (rows == 0) continue;
    if (segment.gap && !segment.damaged) {
      lacking.holes += rows;  // newer messages have replaced these rows, and follow
    } else {
      lacking.lost += rows;
      if (lacking.first.empty()) lacking.first = std::move(what);
    }
  }
}

StepBatch merged(const std::vector<std::vector<Segment>>& parts, const StreamSchema& schema,
                 Lacking& lacking) {
  struct Newest {
    Version version;
    std::span<const std::byte> record;
  };
  std::unordered_map<RowKey, Newest, RowKeyHash> rows;
  for (const auto& segments : parts) {
    for (const Segment& segment : segments) {
      for (std::size_t i = 0; i < segment.rows.size(); ++i) {
        const RowRecord row = segment.rows.row(i);
        try {
          check_row(row, schema);
        } catch (const RecordError& error) {
          if (lacking.lost++ == 0) lacking.first = error.what();
          continue;
        }
        Newest& kept = rows[key_of(row)];
        if (kept.record.empty() || kept.version < row.version) {
          kept = {row.version, segment.rows.record(i)};
        }
      }
    }
  }
  StepBatch batch;
  for (const auto& [key, row] : rows) batch.add_encoded(row.record);
  return batch;
}

}  // namespace millrace::sink
