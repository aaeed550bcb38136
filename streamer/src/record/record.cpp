#include "millrace/streamer/record.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace {
namespace {

constexpr std::uint8_t kSingle = 1;  ///< IEEE single precision
constexpr std::size_t kChecksum = 8;
constexpr std::size_t kCommitBytes = 80;
static_assert(kRecordOverhead == kRecordHeader + kChecksum);
static_assert(std::endian::native == std::endian::little,
              "numbers of records are little-endian, and copied as they are");

template <typename T>
void put(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
[[nodiscard]] T get(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string& what) { throw RecordError{what}; }

std::uint64_t swapped(std::uint64_t value) noexcept { return __builtin_bswap64(value); }

struct Header {
  Version version;
  RecordKind kind{};
  std::uint32_t table = 0, width = 0, state = 0;
  std::int64_t row = 0;
};

/** Appends a record whose payload `fill` writes. */
template <typename Fill>
void append(std::vector<std::byte>& to, const Header& header, std::size_t payload, Fill&& fill) {
  const std::size_t before = to.size();
  const std::size_t bytes = kRecordOverhead + (payload + 7) / 8 * 8;
  if (bytes > kLargestRecord) {
    refuse(fmt::format("a record of {} bytes (expected at most {})", bytes, kLargestRecord));
  }
  to.resize(before + bytes);  // zero
  std::byte* const at = to.data() + before;
  put(at, swapped(header.version.epoch));
  put(at + 8, swapped(header.version.step));
  put(at + 16, static_cast<std::uint32_t>(bytes));
  put(at + 20, static_cast<std::uint8_t>(header.kind));
  put(at + 21, kSingle);
  put(at + 24, header.table);
  put(at + 28, header.width);
  put(at + 32, header.state);
  put(at + 40, header.row);
  fill(at + kRecordHeader);
  put(at + bytes - kChecksum, XXH3_64bits(at, bytes - kChecksum));
}

/** Appends a record of text. The field `width` has the length of the text. */
void append_text(std::vector<std::byte>& to, RecordKind kind, std::string_view text,
                 Version version) {
  append(to, {.version = version, .kind = kind, .width = static_cast<std::uint32_t>(text.size())},
         text.size(), [&](std::byte* at) { std::memcpy(at, text.data(), text.size()); });
}

std::string_view text_from(std::span<const std::byte> payload, std::size_t length) {
  if (length > payload.size() || payload.size() - length >= 8) {
    refuse(fmt::format("a text of {} bytes in a payload of {}", length, payload.size()));
  }
  return {reinterpret_cast<const char*>(payload.data()), length};
}

std::span<const float> floats(const std::byte* at, std::size_t count) {
  return {reinterpret_cast<const float*>(at), count};
}

StepCommit commit_from(std::span<const std::byte> payload, Version version,
                       std::uint64_t wall_time_ms) {
  if (payload.size() != kCommitBytes) {
    refuse(fmt::format("a commit of {} bytes (expected {})", payload.size(), kCommitBytes));
  }
  const std::byte* const at = payload.data();
  const StepCommit commit{.version = version,
                          .after = {get<std::uint64_t>(at), get<std::uint64_t>(at + 8)},
                          .step = get<std::uint64_t>(at + 48),
                          .rank = get<std::uint32_t>(at + 16),
                          .ranks = get<std::uint32_t>(at + 20),
                          .rows = get<std::uint64_t>(at + 24),
                          .missing = get<std::uint64_t>(at + 32),
                          .base = {get<std::uint64_t>(at + 64), get<std::uint64_t>(at + 72)},
                          .answers = get<std::uint64_t>(at + 56),
                          .part = get<std::uint32_t>(at + 40),
                          .parts = get<std::uint32_t>(at + 44),
                          .wall_time_ms = wall_time_ms};
  if (commit.rank >= commit.ranks) {
    refuse(fmt::format("a commit of rank {}, but there are {} ranks", commit.rank, commit.ranks));
  }
  if (commit.part >= commit.parts) {
    refuse(fmt::format("a commit of partition {}, of {} partitions", commit.part, commit.parts));
  }
  if (commit.after >= commit.version) {
    refuse(
        fmt::format("commit {} continues {}", to_string(commit.version), to_string(commit.after)));
  }
  return commit;
}

}  // namespace

std::string to_string(Version version) { return fmt::format("{}:{}", version.epoch, version.step); }

void append_record(std::vector<std::byte>& to, const RowRecord& row) {
  append(to,
         {.version = row.version,
          .kind = RecordKind::row,
          .table = row.table,
          .width = static_cast<std::uint32_t>(row.weights.size()),
          .state = static_cast<std::uint32_t>(row.state.size()),
          .row = row.row},
         row.weights.size_bytes() + row.state.size_bytes(), [&](std::byte* at) {
           if (!row.weights.empty()) std::memcpy(at, row.weights.data(), row.weights.size_bytes());
           at += row.weights.size_bytes();
           if (!row.state.empty()) std::memcpy(at, row.state.data(), row.state.size_bytes());
         });
}

void append_record(std::vector<std::byte>& to, const StepCommit& commit) {
  // The time is in a field that old commits leave 0: earlier versions can read such commits.
  const Header header{.version = commit.version,
                      .kind = RecordKind::commit,
                      .row = static_cast<std::int64_t>(commit.wall_time_ms)};
  append(to, header, kCommitBytes, [&](std::byte* at) {
    put(at, commit.after.epoch);
    put(at + 8, commit.after.step);
    put(at + 16, commit.rank);
    put(at + 20, commit.ranks);
    put(at + 24, commit.rows);
    put(at + 32, commit.missing);
    put(at + 40, commit.part);
    put(at + 44, commit.parts);
    put(at + 48, commit.step);
    put(at + 56, commit.answers);
    put(at + 64, commit.base.epoch);
    put(at + 72, commit.base.step);
  });
}

void append_record(std::vector<std::byte>& to, const StreamSchema& schema, Version version) {
  append_text(to, RecordKind::schema, to_json(schema), version);
}

void append_position(std::vector<std::byte>& to, std::string_view position, Version version) {
  append_text(to, RecordKind::position, position, version);
}

std::size_t record_length(std::span<const std::byte> bytes) {
  const std::size_t length = get<std::uint32_t>(bytes.data() + 16);
  if (length < kRecordOverhead || length % 8 != 0 || length > kLargestRecord) {
    refuse(fmt::format("a record of {} bytes (expected a multiple of 8 from {} to {})", length,
                       kRecordOverhead, kLargestRecord));
  }
  return length;
}

Version record_version(std::span<const std::byte> bytes) noexcept {
  return {swapped(get<std::uint64_t>(bytes.data())), swapped(get<std::uint64_t>(bytes.data() + 8))};
}

Record parse_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeader) {
    refuse(fmt::format("{} bytes at the beginning of a record (expected at least {})", bytes.size(),
                       kRecordOverhead));
  }
  Record record;
  record.bytes = record_length(bytes);
  if (bytes.size() < record.bytes) {
    refuse(
        fmt::format("a truncated record: {} bytes, of which {} exist", record.bytes, bytes.size()));
  }
  const std::byte* const at = bytes.data();
  if (XXH3_64bits(at, record.bytes - kChecksum) !=
      get<std::uint64_t>(at + record.bytes - kChecksum)) {
    refuse("a record with a wrong checksum");
  }
  record.version = record_version(bytes);
  record.kind = static_cast<RecordKind>(get<std::uint8_t>(at + 20));
  const auto type = get<std::uint8_t>(at + 21);
  const std::size_t width = get<std::uint32_t>(at + 28), state = get<std::uint32_t>(at + 32);
  const auto payload = bytes.subspan(kRecordHeader, record.bytes - kRecordOverhead);
  switch (record.kind) {
    case RecordKind::row:
      if (type != kSingle) refuse(fmt::format("a row with values of type {} (expected 1)", type));
      if (record_bytes(width + state) != record.bytes) {
        refuse(fmt::format("a row of {} and {} numbers in a record of {} bytes", width, state,
                           record.bytes));
      }
      record.row = {.version = record.version,
                    .table = get<std::uint32_t>(at + 24),
                    .row = get<std::int64_t>(at + 40),
                    .weights = floats(payload.data(), width),
                    .state = floats(payload.data() + width * sizeof(float), state)};
      return record;
    case RecordKind::commit:
      record.commit = commit_from(payload, record.version, get<std::uint64_t>(at + 40));
      return record;
    case RecordKind::schema:
      record.schema = parse_stream_schema(text_from(payload, width));
      return record;
    case RecordKind::position:
      record.position = text_from(payload, width);
      return record;
  }
  refuse(fmt::format("a record of kind {} (expected 1 to 4)", static_cast<unsigned>(record.kind)));
}

void check_row(const RowRecord& row, const StreamSchema& schema) {
  if (row.table >= schema.tables.size()) {
    refuse(fmt::format("a row of table {}, but the schema has {} tables", row.table,
                       schema.tables.size()));
  }
  const StreamedTable& table = schema.tables[row.table];
  if (row.row < 0 || static_cast<std::uint64_t>(row.row) >= table.rows) {
    refuse(fmt::format("row {} of table '{}', which has {} rows", row.row, table.name, table.rows));
  }
  const std::size_t width = schema.content == RowContent::ids ? 0 : table.width;
  const std::size_t state = schema.content == RowContent::weights_and_state ? table.state : 0;
  if (row.weights.size() != width || row.state.size() != state) {
    refuse(fmt::format("row {} of table '{}' has {} and {} numbers, where {} and {} belong",
                       row.row, table.name, row.weights.size(), row.state.size(), width, state));
  }
}

}  // namespace millrace
