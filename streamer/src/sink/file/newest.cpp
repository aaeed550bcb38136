#include "sink/file/newest.hpp"

#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "record/row_key.hpp"
#include "sink/file/segment.hpp"

namespace millrace::sink {
namespace {

struct Place {
  Version version;
  std::uint64_t offset;  ///< behind it
  std::uint32_t segment;
};
struct Part {
  std::filesystem::path path;
  std::uint64_t end;  ///< of its whole batches
};

std::vector<Part> whole_parts(const std::filesystem::path& folder) {
  std::vector<Part> parts;
  for (const auto& [rank, names] : segments_in(folder)) {
    for (const SegmentName& name : names) {
      const std::filesystem::path path = folder / to_string(name);
      WholePart part;
      // Only of the last is the end looked for: all of the others is read, and has to be whole.
      if (name == names.back()) read_whole_part(path, true, part);
      parts.push_back({path, name == names.back() ? part.end : SegmentReader{path}.size()});
    }
  }
  return parts;
}

template <typename Visit>
void visit_rows(const Part& part, Visit&& visit) {
  SegmentReader reader{part.path};
  while (reader.offset() < part.end) {
    const std::optional<Record> record = reader.next();
    if (!record) {
      throw RecordError{fmt::format("{}, byte {}: a record that is cut short, and not at the end",
                                    part.path.string(), reader.offset())};
    }
    if (record->kind == RecordKind::row) visit(record->row, reader.offset());
  }
}

void check(const RowRecord& row, const StreamSchema& schema, const Part& part) {
  try {
    check_row(row, schema);
  } catch (const RecordError& error) {
    throw RecordError{fmt::format("{}: {}", part.path.string(), error.what())};
  }
}

}  // namespace

void read_newest(const std::filesystem::path& folder, const StreamSchema& schema,
                 const std::function<void(const RowRecord&)>& visit) {
  const std::vector<Part> parts = whole_parts(folder);
  std::unordered_map<RowKey, Place, RowKeyHash> newest;
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    visit_rows(parts[i], [&](const RowRecord& row, std::uint64_t offset) {
      check(row, schema, parts[i]);
      const Place here{.version = row.version, .offset = offset, .segment = i};
      const auto [kept, is_first] = newest.try_emplace(key_of(row), here);
      if (!is_first && kept->second.version < row.version) kept->second = here;
    });
  }
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    visit_rows(parts[i], [&](const RowRecord& row, std::uint64_t offset) {
      const Place& place = newest.at(key_of(row));
      if (place.segment == i && place.offset == offset) visit(row);
    });
  }
}

}  // namespace millrace::sink
