#include "sink/file/file_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "millrace/text/parse_number.hpp"
#include "sink/chain.hpp"
#include "sink/file/address.hpp"
#include "sink/file/folder.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;

constexpr std::chrono::nanoseconds kLongestPause = 50ms;

/** Reads the number that the text begins with, and removes it and the separator after it. */
template <typename T>
bool take_number(std::string_view& text, char separator, T& number) {
  const auto read = text::take_number<T>(text);
  if (!read) return false;
  number = *read;
  if (text.empty()) return separator == ',';
  if (text.front() != separator) return false;
  text.remove_prefix(1);
  return separator != ',' || !text.empty();
}

/**
 * Makes the commit continue the returned one: compaction removed the same trainer's commits in
 * between.
 */
void go_behind(Version before, StepCommit& commit) {
  if (commit.after == Version{} || commit.after.epoch != commit.version.epoch) return;
  commit.after = std::max(commit.after, before);
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
    LogPosition place;
    if (!take_number(left, ':', rank) || !take_number(left, ':', place.number) ||
        !take_number(left, ':', place.offset) || !take_number(left, ':', place.log) ||
        !take_number(left, ':', place.commit.epoch) || !take_number(left, ',', place.commit.step) ||
        place.number == 0) {
      lose(fmt::format("'{}' is not a position (expected one like 0:3:4096:77:1764000000000:9)",
                       position));
    }
    cursors[rank].returned = cursors[rank].read = place;
  }
  return cursors;
}

std::string FileSource::position() const {
  std::vector<std::string> places;
  for (const auto& [rank, cursor] : cursors_) {
    if (cursor.returned.number == 0) continue;
    const LogPosition& place = cursor.returned;
    places.push_back(fmt::format("{}:{}:{}:{}:{}", rank, place.number, place.offset, place.log,
                                 to_string(place.commit)));
  }
  return fmt::format("{}", fmt::join(places, ","));
}

void FileSource::seek(std::string_view position) {
  Cursors cursors = parse(position);
  const Segments segments = segments_in(folder_);
  for (auto& [rank, cursor] : cursors) {
    const auto of_rank = segments.find(rank);
    if (of_rank == segments.end()) lose(fmt::format("rank {} has no segments", rank));
    cursor.segment.rank = rank;
    go_to_place(cursor, of_rank->second);
  }
  cursors_ = std::move(cursors);
  segments_ = segments;
}

/** Goes to the place that was read to, or to the beginning of the segment that replaces it. */
void FileSource::go_to_place(Cursor& cursor, const std::vector<SegmentName>& segments) const {
  LogPosition& place = cursor.read;
  for (const SegmentName& name : segments) {
    if (name.number != place.number && !(name.compacted && name.number > place.number)) continue;
    const SegmentReader reader{folder_ / to_string(name)};
    if (reader.log().value_or(0) != place.log) continue;
    const bool same =
        name.number == place.number && reader.commit_before(place.offset) == place.commit;
    // A compacted segment has replaced the place. It is read from its beginning, and parse_batch
    // skips the batches that were returned.
    if (!same && !name.compacted) continue;
    if (!same) place.offset = 0;
    cursor.segment = name;
    return;
  }
  lose(fmt::format("byte {} of segment {} of rank {} no longer exists", place.offset, place.number,
                   cursor.segment.rank));
}

std::optional<StreamSchema> FileSource::schema() {
  if (!schema_) schema_ = read_schema(folder_);
  return schema_;
}

void FileSource::take_schema(const StreamSchema& given) {
  const std::optional<StreamSchema> there = schema();
  check_schema(given, {.schema = there}, name());
  schema_ = given;
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
  Cursor* const oldest = look();
  if (oldest == nullptr) return std::nullopt;
  oldest->returned = oldest->read;
  Next next{.batch = std::move(*oldest->ahead), .position = position()};
  oldest->ahead.reset();
  return next;
}

/** Returns the cursor of the rank with the next batch; null if no batch is there now. */
FileSource::Cursor* FileSource::look() {
  try {
    if (Cursor* const oldest = oldest_ahead()) return oldest;
  } catch (const SegmentGone&) {  // a segment was compacted since the list was made
  }
  segments_ = segments_in(folder_);
  return oldest_ahead();
}

RecordSource::Left FileSource::left() {
  Left left{.unit = "bytes"};
  if (schema() && look() == nullptr) return left;
  for (const auto& [rank, segments] : segments_in(folder_)) {
    const auto cursor = cursors_.find(rank);
    left.count +=
        bytes_left(cursor == cursors_.end() ? LogPosition{} : cursor->second.returned, segments);
  }
  return left;
}

/** Returns the bytes after the returned batch. Segments may be compacted at the same time. */
std::uint64_t FileSource::bytes_left(const LogPosition& returned,
                                     const std::vector<SegmentName>& segments) const {
  std::uint64_t bytes = 0;
  for (const SegmentName& name : segments) {
    if (name.number < returned.number) continue;
    std::error_code gone;
    const std::uint64_t size = std::filesystem::file_size(folder_ / to_string(name), gone);
    if (gone) continue;
    bytes += size - (name.number == returned.number ? std::min(returned.offset, size) : 0);
  }
  return bytes;
}

/** Reads each rank's next batch, and returns the cursor of the rank with the oldest step. */
FileSource::Cursor* FileSource::oldest_ahead() {
  Cursor* oldest = nullptr;
  for (const auto& [rank, segments] : segments_) {
    Cursor& cursor = cursors_[rank];
    read_ahead(rank, cursor, segments);
    if (!cursor.ahead) continue;
    if (oldest == nullptr || cursor.ahead->commit.version < oldest->ahead->commit.version) {
      oldest = &cursor;
    }
  }
  return oldest;
}

/** Reads the rank's next batch, in this segment or a later one. */
void FileSource::read_ahead(std::uint32_t rank, Cursor& cursor,
                            const std::vector<SegmentName>& segments) {
  if (cursor.ahead) return;
  for (std::size_t i = place_among(segments, cursor); i < segments.size(); ++i) {
    open(cursor, segments[i]);
    cursor.ahead = read_batch(rank, cursor, i + 1 == segments.size());
    if (cursor.ahead) return;
  }
}

/**
 * Returns the index of the segment to continue with. A replacement of compacted segments is read
 * from its beginning.
 */
std::size_t FileSource::place_among(const std::vector<SegmentName>& segments,
                                    const Cursor& cursor) const {
  if (cursor.read.number == 0) return 0;
  const auto same = std::ranges::find(segments, cursor.segment);
  if (same != segments.end()) return static_cast<std::size_t>(same - segments.begin());
  if (segments.front().compacted && segments.front().number >= cursor.read.number) return 0;
  lose(fmt::format("{} no longer exists", to_string(cursor.segment)));
}

void FileSource::open(Cursor& cursor, const SegmentName& segment) const {
  LogPosition& place = cursor.read;
  if (place.number == 0 || cursor.segment != segment) {
    cursor.segment = segment;
    cursor.reader.reset();
    place.number = segment.number;
    place.offset = 0;
  }
  if (cursor.reader && cursor.reader->is_there()) return;
  cursor.reader = std::make_unique<SegmentReader>(folder_ / to_string(segment), place.offset);
  cursor.looked_at = 0;
  const bool same =
      place.offset == 0 || (cursor.reader->log().value_or(0) == place.log &&
                            cursor.reader->commit_before(place.offset) == place.commit);
  if (!same) lose(fmt::format("{} is another than was read", cursor.reader->path().string()));
}

/** Reads the next whole batch. Returns nothing at the end, even if the end is torn. */
std::optional<StepBatch> FileSource::read_batch(std::uint32_t rank, Cursor& cursor, bool is_last) {
  SegmentReader& reader = *cursor.reader;
  for (bool again = false;; again = true) {
    const std::uint64_t size = reader.size();
    if (size < cursor.read.offset) {
      lose(fmt::format("{} was cut off before what was read of it", reader.path().string()));
    }
    // The torn end was read before, and has not grown.
    if (size == cursor.read.offset || (is_last && size == cursor.looked_at)) return std::nullopt;
    std::string damage;
    reader.go_to(cursor.read.offset);
    try {
      if (auto batch = parse_batch(rank, cursor)) {
        cursor.read.offset = reader.offset();
        cursor.read.commit = batch->commit.version;
        return batch;
      }
    } catch (const RecordError& error) {
      damage = error.what();
    }
    // No commit follows: the writer is still writing, or was killed there. Otherwise the damage is
    // in the middle.
    if (is_last && !reader.commit_behind(cursor.read.offset)) {
      cursor.looked_at = size;
      return std::nullopt;
    }
    if (!again) continue;  // the commit may have been written meanwhile
    if (!damage.empty()) throw RecordError{damage};
    if (reader.offset() == reader.size()) {
      cursor.read.offset = reader.offset();
      return std::nullopt;
    }
    refuse_at(reader, "the batch is truncated, but data follows it");
  }
}

void FileSource::check(const RowRecord& row, const SegmentReader& reader) const {
  try {
    check_row(row, *schema_);
  } catch (const RecordError& error) {
    refuse_at(reader, error.what());
  }
}

void FileSource::check_log(Cursor& cursor, std::uint64_t log) const {
  if (cursor.read.commit != Version{} && cursor.read.log != log) {
    lose(fmt::format("{} is of another stream", cursor.reader->path().string()));
  }
  cursor.read.log = log;
}

/** Reads a batch. In a compacted segment, skips the batches that were returned before. */
std::optional<StepBatch> FileSource::parse_batch(std::uint32_t rank, Cursor& cursor) {
  SegmentReader& reader = *cursor.reader;
  const bool compacted = cursor.segment.compacted;
  StepBatch batch;
  while (const std::optional<Record> record = reader.next()) {
    switch (record->kind) {
      case RecordKind::row:
        check(record->row, reader);
        batch.add_encoded(reader.bytes());
        break;
      case RecordKind::schema:
        if (const std::string other = difference(*schema_, record->schema); !other.empty()) {
          refuse_at(reader, "the segment belongs to other tables: " + other);
        }
        if (reader.offset() == record->bytes) check_log(cursor, record->version.step);
        break;
      case RecordKind::position:
        break;
      case RecordKind::commit:
        if (record->commit.rank != rank || record->commit.rows != batch.size()) {
          refuse_at(reader,
                    fmt::format("a commit of rank {} and {} rows follows {} rows of rank {}",
                                record->commit.rank, record->commit.rows, batch.size(), rank));
        }
        if (compacted && record->commit.version <= cursor.read.commit) {
          cursor.read.offset = reader.offset();
          batch = {};
          break;
        }
        batch.commit = record->commit;
        if (compacted) go_behind(cursor.read.commit, batch.commit);
        return batch;
    }
  }
  return std::nullopt;
}

void FileSource::ask_for_snapshot() { request_snapshot(folder_); }

std::unique_ptr<RecordSource> open_file_source(std::string_view spec) {
  return std::make_unique<FileSource>(parse_file_address(spec).folder);
}

}  // namespace millrace::sink
