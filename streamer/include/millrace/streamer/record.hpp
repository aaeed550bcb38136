#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/schema.hpp"

/// @file
/// Rows, commits, schemas and positions as bytes. Files and topics contain a sequence of records;
/// key-value stores keep one record for each row.
///
/// Terms:
///   - version: the epoch (one start of a trainer) and the step that a value belongs to.
///   - commit: the record that a rank writes after the rows of a step. It says how many rows came
///     before it and how many are missing.
///   - missing row: a row that changed, or belongs to a snapshot, and is not delivered yet.
///   - snapshot: all rows of all tables of a rank, delivered with one or more steps.
///   - chain: the commits of one rank; each names the previous one. It begins with a snapshot.
///   - position: where the reader of a log continues, in the log's own format.
///
/// The layout of a record, by byte offset:
///
///     0   epoch and step, 8 bytes each, big-endian: versions compare as bytes
///     16  bytes of the record, 4 bytes: a multiple of 8
///     20  kind, 1 byte; type of the values, 1 byte (1: IEEE single precision); 0, 2 bytes
///     24  table, width, state, 0: 4 bytes each
///     40  row: number of the row in the whole table, 8 bytes. In a commit: its wall-clock time in
///         milliseconds since 1970, or 0
///     48  the weights, then the optimizer state. In a commit, a schema or a position: its
///         contents. Then 0 up to a multiple of 8
///     ..  XXH3-64 of all bytes before, 8 bytes
///
/// All numbers except the version are little-endian. Do not trust a record from outside until it is
/// parsed.

namespace millrace {

/** @brief Bytes are not a record, or not the record that was expected. */
class RecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief The time of a value. Newer versions compare greater; {} compares less than all others. */
struct Version {
  std::uint64_t epoch = 0;  ///< one start of a trainer, from 1; later starts have greater epochs
  std::uint64_t step = 0;   ///< the last step whose update the value includes, from 0

  friend auto operator<=>(const Version&, const Version&) = default;
};
[[nodiscard]] std::string to_string(Version version);  ///< "3:120"

/** @brief A row and its values after the update of one step. */
struct RowRecord {
  Version version;
  std::uint32_t table = 0;           ///< number of the table in the schema
  std::int64_t row = 0;              ///< number of the row in the whole table
  std::span<const float> weights{};  ///< [width]; empty: not delivered
  std::span<const float> state{};    ///< [state]; empty: not delivered
};

/**
 * @brief States that one rank has delivered all changed rows up to a step, except the missing ones.
 *
 * A reader that has applied a rank's chain since a snapshot began, and whose newest commit has no
 * missing rows, has the rank's rows exactly as they were at that step. A step counts when the
 * commits of all ranks have reached it.
 */
struct StepCommit {
  /** Version of the commit itself: the epoch, and a number that grows from commit to commit,
   * from 1.
   */
  Version version;
  Version after;           ///< version of the previous commit; {}: a chain begins, with a snapshot
  std::uint64_t step = 0;  ///< last step that it covers; a flush adds a commit of the same step
  std::uint32_t rank = 0, ranks = 1;
  std::uint64_t rows = 0;     ///< number of row records between the previous commit and this one
  std::uint64_t missing = 0;  ///< number of missing rows
  Version base{};             ///< epoch and step of the tables when this epoch began
  std::uint64_t answers = 0;  ///< newest Sink::snapshot_request that it answers; 0: none
  /** In a topic: the number of this partition, and the number of partitions. `rows` counts the rows
   * in this partition. */
  std::uint32_t part = 0, parts = 1;
  /** Milliseconds since 1970 (UTC) on the writer's clock. Rows that changed before this time come
   * before this commit, or are counted as missing. 0: unknown (commits of old versions). */
  std::uint64_t wall_time_ms = 0;

  friend bool operator==(const StepCommit&, const StepCommit&) = default;
};

/** @brief What a record contains. */
enum class RecordKind : std::uint8_t { row = 1, commit = 2, schema = 3, position = 4 };

inline constexpr std::size_t kRecordHeader = 48;    ///< bytes of a header
inline constexpr std::size_t kRecordOverhead = 56;  ///< bytes of header and checksum
/** Maximum bytes of a record. */
inline constexpr std::size_t kLargestRecord = std::size_t{64} << 20;

/** @param floats  number of floats of weights and state together
 *  @return bytes of a row record */
[[nodiscard]] constexpr std::size_t record_bytes(std::size_t floats) noexcept {
  return kRecordOverhead + (floats * sizeof(float) + 7) / 8 * 8;
}

/** @brief Appends one record to `to`. @throws RecordError if it would exceed `kLargestRecord` */
void append_record(std::vector<std::byte>& to, const RowRecord& row);
void append_record(std::vector<std::byte>& to, const StepCommit& commit);
void append_record(std::vector<std::byte>& to, const StreamSchema& schema, Version version);
/** @brief Appends the applier's read position, in the source's own format. */
void append_position(std::vector<std::byte>& to, std::string_view position, Version version);

/** @brief A parsed record. Only the member that `kind` names is set. It points into the bytes it
 * was parsed from, which must begin at an address that is a multiple of 4. */
struct Record {
  RecordKind kind{};
  std::size_t bytes = 0;  ///< bytes of this record, which is the offset of the next one
  Version version;
  RowRecord row;
  StepCommit commit;
  StreamSchema schema;
  std::string_view position;
};

/**
 * @brief Reads the length of a record from its header.
 * @param bytes  at least kRecordHeader bytes of the record
 * @return bytes of the whole record
 * @throws RecordError if no record can have this length
 */
[[nodiscard]] std::size_t record_length(std::span<const std::byte> bytes);
/** @brief Reads the version of a record without checking it.
 *  @param bytes  at least the first 16 bytes of the record */
[[nodiscard]] Version record_version(std::span<const std::byte> bytes) noexcept;

/**
 * @brief Parses and checks the record at the beginning of `bytes`.
 * @throws RecordError if the bytes are truncated, the checksum differs, or they are not a record
 */
[[nodiscard]] Record parse_record(std::span<const std::byte> bytes);

/** @throws RecordError if the schema has no such row, or a row of another width */
void check_row(const RowRecord& row, const StreamSchema& schema);

}  // namespace millrace
