#include "sink/file/newest.hpp"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "record/row_key.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {
namespace {

struct NewestRow {
  Version version;
  std::uint64_t offset;  ///< offset after the record
  std::uint32_t segment;
};
struct WholeSegment {
  std::filesystem::path path;
  std::uint64_t end;  ///< end of its whole batches
};

std::vector<WholeSegment> whole_segments(const std::filesystem::path& folder,
                                         const Deadline::Shared& finish_by) {
  std::vector<WholeSegment> segments;
  for (const auto& [rank, names] : segments_in(folder)) {
    for (const SegmentName& name : names) {
      const std::filesystem::path path = folder / to_string(name);
      WholePart segment;
      // Only the last segment may have a torn end; all others must be whole.
      if (name == names.back()) read_whole_part(path, true, segment, finish_by);
      segments.push_back({path, name == names.back() ? segment.end : SegmentReader{path}.size()});
    }
  }
  return segments;
}

template <typename Visit>
void visit_rows(const WholeSegment& segment, const Deadline::Shared& finish_by, Visit&& visit) {
  SegmentReader reader{segment.path, 0, finish_by};
  while (reader.offset() < segment.end) {
    const std::optional<Record> record = reader.next();
    if (!record) {
      throw RecordError{fmt::format("{}, byte {}: the record is truncated, but data follows it",
                                    segment.path.string(), reader.offset())};
    }
    if (record->kind == RecordKind::row) visit(record->row, reader.offset());
  }
}

void check(const RowRecord& row, const StreamSchema& schema, const WholeSegment& segment) {
  try {
    check_row(row, schema);
  } catch (const RecordError& error) {
    throw RecordError{fmt::format("{}: {}", segment.path.string(), error.what())};
  }
}

}  // namespace

void read_newest(const std::filesystem::path& folder, const StreamSchema& schema,
                 const std::function<void(const RowRecord&)>& visit,
                 const Deadline::Shared& finish_by) {
  const std::vector<WholeSegment> segments = whole_segments(folder, finish_by);
  // Keeps places instead of rows, and makes a second pass: memory grows with the number of rows,
  // not with their width.
  std::unordered_map<RowKey, NewestRow, RowKeyHash> newest;
  for (std::uint32_t i = 0; i < segments.size(); ++i) {
    visit_rows(segments[i], finish_by, [&](const RowRecord& row, std::uint64_t offset) {
      check(row, schema, segments[i]);
      const NewestRow here{.version = row.version, .offset = offset, .segment = i};
      const auto [kept, is_first] = newest.try_emplace(key_of(row), here);
      if (!is_first && kept->second.version < row.version) kept->second = here;
    });
  }
  for (std::uint32_t i = 0; i < segments.size(); ++i) {
    visit_rows(segments[i], finish_by, [&](const RowRecord& row, std::uint64_t offset) {
      const NewestRow& place = newest.at(key_of(row));
      if (place.segment == i && place.offset == offset) visit(row);
    });
  }
}

}  // namespace millrace::sink
