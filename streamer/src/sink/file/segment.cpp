#include "sink/file/segment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

constexpr std::size_t kReadAhead = std::size_t{256} << 10;
constexpr std::string_view kSuffix = ".segment", kCompacted = ".compacted";

template <typename T>
bool take_number(std::string_view& text, std::string_view before, T& number) {
  if (!text.starts_with(before)) return false;
  text.remove_prefix(before.size());
  const auto read = text::take_number<T>(text);
  if (read) number = *read;
  return read.has_value();
}

[[noreturn]] void refuse_at(const std::filesystem::path& path, std::uint64_t offset,
                            const std::string& what) {
  throw RecordError{fmt::format("{}, byte {}: {}", path.string(), offset, what)};
}

/** Returns whether the header of a commit's record is here. No other record has that length. */
bool looks_like_commit(const std::byte* at, std::size_t commit_bytes) {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, at + 16, sizeof bytes);
  return bytes == commit_bytes &&
         at[20] == std::byte{static_cast<std::uint8_t>(RecordKind::commit)};
}

std::size_t bytes_of_commits() {
  static const std::size_t bytes = [] {
    std::vector<std::byte> record;
    append_record(record, StepCommit{});
    return record.size();
  }();
  return bytes;
}

bool is_commit(std::span<const std::byte> bytes) {
  try {
    return parse_record(bytes).kind == RecordKind::commit;
  } catch (const RecordError&) {
    return false;
  }
}

}  // namespace

std::string to_string(const SegmentName& name) {
  return fmt::format("rank-{:04}-{:08}-epoch-{:06}{}", name.rank, name.number, name.epoch,
                     name.compacted ? kCompacted : kSuffix);
}

std::optional<SegmentName> parse_segment_name(std::string_view name) {
  SegmentName parsed;
  std::string_view left = name;
  if (!take_number(left, "rank-", parsed.rank) || !take_number(left, "-", parsed.number) ||
      !take_number(left, "-epoch-", parsed.epoch)) {
    return std::nullopt;
  }
  parsed.compacted = left == kCompacted;
  // Accepts only names that this program writes: "rank-1" and "rank-0001" would be two segments of
  // one number.
  return to_string(parsed) == name ? std::optional{parsed} : std::nullopt;
}

namespace {

Segments listed(const std::filesystem::path& folder) {
  Segments segments;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{folder, error}, end; !error && entry != end;
       entry.increment(error)) {
    if (const auto name = parse_segment_name(entry->path().filename().string())) {
      segments[name->rank].push_back(*name);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_system_error(error.value(), folder.string());
  }
  return segments;
}

/** Returns the number of the newest compacted segment; 0: none. */
std::uint64_t last_compacted(const std::vector<SegmentName>& names) {
  std::uint64_t last = 0;
  for (const SegmentName& name : names) {
    if (name.compacted) last = std::max(last, name.number);
  }
  return last;
}

bool stands(const SegmentName& name, std::uint64_t compacted) {
  return name.number > compacted || (name.compacted && name.number == compacted);
}

/**
 * Removes superseded segments from the list and sorts it by number. @return true if no number in
 * between is missing
 */
bool put_in_order(std::vector<SegmentName>& names) {
  const std::uint64_t compacted = last_compacted(names);
  std::erase_if(names, [&](const SegmentName& name) { return !stands(name, compacted); });
  std::ranges::sort(names, {}, &SegmentName::number);
  std::uint64_t before = names.front().compacted ? names.front().number - 1 : 0;
  return std::ranges::all_of(names, [&](const auto& name) { return name.number == ++before; });
}

}  // namespace

// A list made during a compaction may have neither the old nor the new segment: then list again.
Segments segments_in(const std::filesystem::path& folder) {
  for (Segments before;;) {
    Segments segments = listed(folder);
    bool whole = true;
    for (auto& [rank, names] : segments) whole = put_in_order(names) && whole;
    // The same list twice, with a hole: the segment was removed, and nothing replaces it.
    if (whole || segments == before) return segments;
    before = std::move(segments);
  }
}

std::vector<SegmentName> superseded_in(const std::filesystem::path& folder, std::uint32_t rank) {
  std::vector<SegmentName> names = listed(folder)[rank];
  std::erase_if(names, [compacted = last_compacted(names)](const SegmentName& name) {
    return stands(name, compacted);
  });
  return names;
}

SegmentReader::SegmentReader(std::filesystem::path path, std::uint64_t offset,
                             const Deadline::Shared& finish_by)
    : path_(std::move(path)), file_(open_to_read(path_)), offset_(offset), finish_by_(finish_by) {
  if (!file_) {
    throw SegmentGone{path_.string() + ": this segment no longer exists"};
  }
}

void SegmentReader::go_to(std::uint64_t offset) noexcept {
  offset_ = offset;
  begin_ = end_ = 0;
  record_ = {};
}

/** Reads until the buffer has `bytes` from `offset_` on. @return false if they do not exist */
bool SegmentReader::fill(std::size_t bytes) {
  if (end_ - begin_ >= bytes) return true;
  if (Deadline::passed(finish_by_)) {
    throw SinkError{SinkError::Kind::retry, path_.string() + ": it was not read in time"};
  }
  // The file may grow while it is read.
  const std::uint64_t there = size(), left = there > offset_ ? there - offset_ : 0;
  if (left < bytes) return false;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  const std::size_t useful =
      std::max(bytes, static_cast<std::size_t>(std::min<std::uint64_t>(left, kReadAhead)));
  if (buffer_.size() < useful) buffer_.resize(useful);
  end_ += read_at(file_, offset_ + end_, std::span{buffer_}.subspan(end_), path_);
  return end_ >= bytes;
}

std::optional<Record> SegmentReader::next() {
  record_ = {};
  if (!fill(kRecordHeader)) return std::nullopt;
  try {
    const std::size_t bytes = record_length(std::span{buffer_}.subspan(begin_, end_ - begin_));
    if (!fill(bytes)) return std::nullopt;
    record_ = std::span{buffer_}.subspan(begin_, bytes);
    Record record = parse_record(record_);
    begin_ += bytes;
    offset_ += bytes;
    return record;
  } catch (const RecordError& error) {
    refuse_at(path_, offset_, error.what());
  }
}

bool SegmentReader::commit_behind(std::uint64_t offset) const {
  const std::size_t commit_bytes = bytes_of_commits();
  offset = (offset + 7) / 8 * 8;
  const std::uint64_t there_are = size(), left = there_are > offset ? there_are - offset : 0;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(left, kReadAhead));
  for (;;) {
    const std::size_t there = read_at(file_, offset, buffer, path_);
    if (there < commit_bytes) return false;
    std::size_t at = 0;
    for (; at + commit_bytes <= there; at += 8) {  // records are multiples of 8
      if (!looks_like_commit(buffer.data() + at, commit_bytes)) continue;
      if (is_commit(std::span{buffer}.subspan(at, there - at))) return true;
    }
    if (there < buffer.size()) return false;
    offset += at;
  }
}

std::optional<Version> SegmentReader::commit_before(std::uint64_t offset) const {
  std::vector<std::byte> bytes(bytes_of_commits());
  if (offset < bytes.size() || offset > size()) return std::nullopt;
  bytes.resize(read_at(file_, offset - bytes.size(), bytes, path_));
  return is_commit(bytes) ? std::optional{record_version(bytes)} : std::nullopt;
}

std::optional<std::uint64_t> SegmentReader::log() const {
  std::vector<std::byte> bytes(kRecordHeader);
  if (read_at(file_, 0, bytes, path_) < bytes.size()) return std::nullopt;
  try {
    bytes.resize(std::min<std::uint64_t>(record_length(bytes), size()));
    bytes.resize(read_at(file_, 0, bytes, path_));
    const Record record = parse_record(bytes);
    if (record.kind == RecordKind::schema) return record.version.step;
  } catch (const RecordError&) {
  }
  return std::nullopt;
}

namespace {

/** Reads to the end, or to bytes that are not a record. @return what is wrong with these bytes */
std::string read_batches(SegmentReader& reader, WholePart& part) {
  std::optional<NumberedPosition> position;
  try {
    while (const std::optional<Record> record = reader.next()) {
      if (record->kind == RecordKind::position) {
        position = {.number = record->version.step, .text = std::string{record->position}};
      } else if (record->kind == RecordKind::commit) {
        part.end = reader.offset();
        part.commit = record->commit;
        if (position) part.position = *position;
      }
    }
    return {};
  } catch (const RecordError& error) {
    return error.what();
  }
}

}  // namespace

void read_whole_part(const std::filesystem::path& path, bool is_last, WholePart& part,
                     const Deadline::Shared& finish_by) {
  SegmentReader reader{path, part.end, finish_by};
  for (std::optional<std::uint64_t> stopped_at;;) {
    const std::string damage = read_batches(reader, part);
    part.size = reader.size();
    if (damage.empty() && part.end == part.size) return;
    if (is_last && !reader.commit_behind(reader.offset())) return;
    if (stopped_at == reader.offset()) {
      if (!damage.empty()) throw RecordError{damage};
      refuse_at(path, reader.offset(), "the record is truncated, but data follows it");
    }
    stopped_at = reader.offset();  // once more, because the record may have been written meanwhile
    reader.go_to(part.end);
  }
}

namespace {

bool chain_begins_in(const std::filesystem::path& path, const Deadline::Shared& finish_by) {
  SegmentReader reader{path, 0, finish_by};
  while (const std::optional<Record> record = reader.next()) {
    if (record->kind == RecordKind::commit && record->commit.after == Version{}) return true;
  }
  return false;
}

}  // namespace

std::string find_gap(const std::filesystem::path& folder, const std::vector<SegmentName>& segments,
                     const Deadline::Shared& finish_by) {
  std::size_t behind = 0;  // index of the first segment after the last gap
  for (std::size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].number != segments[i - 1].number + 1) behind = i;
  }
  if (behind == 0) return {};
  for (std::size_t i = behind; i < segments.size(); ++i) {
    if (chain_begins_in(folder / to_string(segments[i]), finish_by)) return {};
  }
  return fmt::format("rank {} has no segment between {} and {}", segments[behind].rank,
                     segments[behind - 1].number, segments[behind].number);
}

}  // namespace millrace::sink
