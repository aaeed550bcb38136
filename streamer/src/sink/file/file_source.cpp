#include "sink/file/file_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "sink/file/folder.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;

constexpr std::chrono::nanoseconds kLongestPause = 50ms;

/** The number that the text begins with, and what is between it and the next; throws it out. */
template <typename T>
bool take_number(std::string_view& text, char behind, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty()) return behind == ',';
  if (text.front() != behind) return false;
  text.remove_prefix(1);
  return behind != ',' || !text.empty();
}

const SegmentName* numbered(const std::vector<SegmentName>& segments, std::uint64_t number) {
  const auto found = std::ranges::find(segments, number, &SegmentName::number);
  return found == segments.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_at(const SegmentReader& reader, const std::string& what) {
  throw RecordError{
      fmt::format("{}, before byte {}: {}", reader.path().string(), reader.offset(), what)};
}

}  // namespace

void FileSource::lose(const std::string& what) const {
  throw SinkError{SinkError::Kind::lost, fmt::format("{}: {}", name(), what)};
}

FileSource::Cursors FileSource::parse(std::string_view position) const {
  Cursors cursors;
  for (std::string_view left = position; !left.empty();) {
    std::uint32_t rank = 0;
    Place place;
    if (!take_number(left, ':', rank) || !take_number(left, ':', place.number) ||
        !take_number(left, ',', place.offset) || place.number == 0) {
      lose(fmt::format("'{}' is no position; 0:3:4096,1:2:128 would be", position));
    }
    cursors[rank].told = cursors[rank].read = place;
  }
  return cursors;
}

std::string FileSource::position() const {
  std::vector<std::string> places;
  for (const auto& [rank, cursor] : cursors_) {
    if (cursor.told.number == 0) continue;
    places.push_back(fmt::format("{}:{}:{}", rank, cursor.told.number, cursor.told.offset));
  }
  return fmt::format("{}", fmt::join(places, ","));
}

void FileSource::seek(std::string_view position) {
  Cursors cursors = parse(position);
  const Segments segments = segments_in(folder_);
  for (const auto& [rank, cursor] : cursors) {
    const auto of_rank = segments.find(rank);
    if (of_rank == segments.end()) lose(fmt::format("nothing of rank {} is there", rank));
    const SegmentName* const segment = numbered(of_rank->second, cursor.told.number);
    if (segment == nullptr ||
        !SegmentReader{folder_ / to_string(*segment)}.mark_ends_at(cursor.told.offset)) {
      lose(fmt::format("byte {} of segment {} of rank {} is there no more", cursor.told.offset,
                       cursor.told.number, rank));
    }
  }
  cursors_ = std::move(cursors);
  segments_ = segments;
}

std::optional<StreamSchema> FileSource::schema() {
  if (!schema_) schema_ = read_schema(folder_);
  return schema_;
}

std::optional<RecordSource::Next> FileSource::next(std::chrono::nanoseconds patience) {
  const auto start = Clock::now();
  for (std::chrono::nanoseconds pause = 1ms;; pause = std::min(2 * pause, kLongestPause)) {
    if (auto found = take()) return found;
    const std::chrono::nanoseconds waited = Clock::now() - start;
    if (waited >= patience) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, patience - waited));
  }
}

std::optional<RecordSource::Next> FileSource::take() {
  if (!schema()) return std::nullopt;
  Cursor* oldest = oldest_ahead();
  if (oldest == nullptr) {
    segments_ = segments_in(folder_);
    oldest = oldest_ahead();
  }
  if (oldest == nullptr) return std::nullopt;
  oldest->told = oldest->read;
  Next next{.batch = std::move(*oldest->ahead), .position = position()};
  oldest->ahead.reset();
  return next;
}

/** Reads each rank's next batch, and gives the rank whose step is the oldest. */
FileSource::Cursor* FileSource::oldest_ahead() {
  Cursor* oldest = nullptr;
  for (const auto& [rank, segments] : segments_) {
    Cursor& cursor = cursors_[rank];
    read_ahead(rank, cursor, segments);
    if (!cursor.ahead) continue;
    if (oldest == nullptr || cursor.ahead->mark.version < oldest->ahead->mark.version) {
      oldest = &cursor;
    }
  }
  return oldest;
}

/** The rank's next batch, in this segment or a later one. */
void FileSource::read_ahead(std::uint32_t rank, Cursor& cursor,
                            const std::vector<SegmentName>& segments) {
  if (cursor.ahead) return;
  auto segment = cursor.read.number == 0
                     ? segments.begin()
                     : std::ranges::find(segments, cursor.read.number, &SegmentName::number);
  if (segment == segments.end()) {
    lose(fmt::format("segment {} of rank {} is there no more", cursor.read.number, rank));
  }
  for (; segment != segments.end(); ++segment) {
    if (segment->number != cursor.read.number) {
      cursor.read = {.number = segment->number};
      cursor.reader.reset();
    }
    if (!cursor.reader) {
      cursor.reader =
          std::make_unique<SegmentReader>(folder_ / to_string(*segment), cursor.read.offset);
      cursor.looked_at = 0;
    }
    cursor.ahead = read_batch(rank, cursor, *segment == segments.back());
    if (cursor.ahead) return;
  }
}

/** The batch that is whole behind the cursor; nothing at the end, also where it is torn. */
std::optional<StepBatch> FileSource::read_batch(std::uint32_t rank, Cursor& cursor, bool is_last) {
  SegmentReader& reader = *cursor.reader;
  for (bool again = false;; again = true) {
    const std::uint64_t size = reader.size();
    if (size < cursor.read.offset) {
      lose(fmt::format("{} was cut off before what was read of it", reader.path().string()));
    }
    if (size == cursor.read.offset || (is_last && size == cursor.looked_at)) return std::nullopt;
    std::string damage;
    reader.go_to(cursor.read.offset);
    try {
      if (auto batch = parse_batch(rank, reader)) {
        cursor.read.offset = reader.offset();
        return batch;
      }
    } catch (const RecordError& error) {
      damage = error.what();
    }
    if (is_last && !reader.mark_behind(cursor.read.offset)) {
      cursor.looked_at = size;
      return std::nullopt;
    }
    if (!again) continue;  // it may have been written meanwhile
    if (!damage.empty()) throw RecordError{damage};
    if (reader.offset() == reader.size()) {
      cursor.read.offset = reader.offset();
      return std::nullopt;
    }
    refuse_at(reader, "a batch that is cut short, and not at the end");
  }
}

void FileSource::check(const RowRecord& row, const SegmentReader& reader) const {
  try {
    check_row(row, *schema_);
  } catch (const RecordError& error) {
    refuse_at(reader, error.what());
  }
}

std::optional<StepBatch> FileSource::parse_batch(std::uint32_t rank, SegmentReader& reader) {
  StepBatch batch;
  while (const std::optional<Record> record = reader.next()) {
    switch (record->kind) {
      case RecordKind::row:
        check(record->row, reader);
        batch.add_encoded(reader.bytes());
        break;
      case RecordKind::schema:
        if (const std::string other = difference(*schema_, record->schema); !other.empty()) {
          refuse_at(reader, "a segment of other tables: " + other);
        }
        break;
      case RecordKind::position:
        break;
      case RecordKind::mark:
        if (record->mark.rank != rank || record->mark.rows != batch.size()) {
          refuse_at(reader, fmt::format("a mark of rank {} and {} rows behind {} rows of rank {}",
                                        record->mark.rank, record->mark.rows, batch.size(), rank));
        }
        batch.mark = record->mark;
        return batch;
    }
  }
  return std::nullopt;
}

void FileSource::ask_for_snapshot() { request_snapshot(folder_); }

std::unique_ptr<RecordSource> open_file_source(std::string_view spec) {
  return std::make_unique<FileSource>(folder_of(spec, "file:"));
}

}  // namespace millrace::sink
