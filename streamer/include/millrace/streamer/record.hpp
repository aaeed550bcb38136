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
/// Rows, marks, schemas and positions as bytes: what files and topics have one behind another, and
/// stores keep for a row. A record is
///
///     0   epoch and step, 8 bytes each, big-endian: versions compare as bytes do
///     16  bytes of the record, 4: a multiple of 8
///     20  kind, 1; type of the numbers, 1 (1: IEEE single precision); 0, 2
///     24  table, width, state, 0: 4 bytes each
///     40  row, 8: of the whole table; of a mark its wall-clock time, in milliseconds since 1970,
///     or 0 48  the weights, then the optimizer's state; of a mark, a schema or a position what it
///     says;
///         0 up to a multiple of 8
///     ..  XXH3-64 of all before, 8
///
/// and little-endian but for the version. Records from outside are hostile until parsed.

namespace millrace {

/** @brief Bytes that are no record, or not the one that was meant. */
class RecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief When a row had a value: the newer of two is the greater. {} is before all others. */
struct Version {
  std::uint64_t epoch = 0;  ///< of one start of a trainer: greater than all before; from 1
  std::uint64_t step = 0;   ///< whose update had been made, none later: from 0

  friend auto operator<=>(const Version&, const Version&) = default;
};
[[nodiscard]] std::string to_string(Version version);  ///< "3:120"

/** @brief A row of a table and its numbers, as they were behind the update of a step. */
struct RowRecord {
  Version version;
  std::uint32_t table = 0;           ///< of the schema
  std::int64_t row = 0;              ///< of the whole table
  std::span<const float> weights{};  ///< [width], or none
  std::span<const float> state{};    ///< [state], or none
};

/**
 * @brief Says of one rank that all it has to tell up to a step has been told before it, but for
 *        what is missing.
 *
 * The marks of a rank form a chain: each has a number and names the one before. Whoever has applied
 * all of the chain from a snapshot on, and finds nothing missing, has the rank's rows as they were
 * at that step. A step counts when the marks of all ranks are there.
 */
struct StepMark {
  Version version;  ///< its own: the epoch, and a number that grows from mark to mark, from 1
  Version after;    ///< of the mark before; {}: a chain begins, with a snapshot
  std::uint64_t step = 0;  ///< the last one that it speaks of; a flush has a mark of the same step
  std::uint32_t rank = 0, ranks = 1;
  std::uint64_t rows = 0;  ///< records between that mark and this one
  std::uint64_t missing =
      0;           ///< rows that have changed, or belong to a snapshot, and were not told
  Version base{};  ///< epoch and step that the tables were of when this epoch began
  std::uint64_t answers = 0;  ///< the newest Sink::snapshot_request that it is behind; 0: none
  /** Where a topic has parts: which one this is in, and of how many; `rows` are those of the part.
   */
  std::uint32_t part = 0, parts = 1;
  /** Milliseconds since 1970 (UTC) on the writer's clock: rows that changed before were told before
   *  this mark, or are counted as missing. 0: unknown, as in marks of earlier versions. */
  std::uint64_t wall_time_ms = 0;

  friend bool operator==(const StepMark&, const StepMark&) = default;
};

enum class RecordKind : std::uint8_t { row = 1, mark = 2, schema = 3, position = 4 };

inline constexpr std::size_t kRecordHeader = 48;    ///< bytes
inline constexpr std::size_t kRecordOverhead = 56;  ///< with the checksum
/** Bytes of the largest record that there may be. */
inline constexpr std::size_t kLargestRecord = std::size_t{64} << 20;

/** @brief Bytes of a row's record. */
[[nodiscard]] constexpr std::size_t record_bytes(std::size_t floats) noexcept {
  return kRecordOverhead + (floats * sizeof(float) + 7) / 8 * 8;
}

/** @brief Each appends one record. @throws RecordError if it would be larger than the largest */
void append_record(std::vector<std::byte>& to, const RowRecord& row);
void append_record(std::vector<std::byte>& to, const StepMark& mark);
void append_record(std::vector<std::byte>& to, const StreamSchema& schema, Version version);
/** @brief Where who applies has read to, in a source's words. */
void append_position(std::vector<std::byte>& to, std::string_view position, Version version);

/** @brief One of them; the others are of no meaning. Points into the bytes it was read from, which
 *         are to begin at a multiple of 4. */
struct Record {
  RecordKind kind{};
  std::size_t bytes = 0;  ///< from the beginning of the next one
  Version version;
  RowRecord row;
  StepMark mark;
  StreamSchema schema;
  std::string_view position;
};

/**
 * @brief How long the record is that begins here, as its header says.
 * @param bytes  at least kRecordHeader
 * @throws RecordError if it can be none: this length can not be
 */
[[nodiscard]] std::size_t record_length(std::span<const std::byte> bytes);
/** @brief The version of a record, unchecked; at least 16 bytes. */
[[nodiscard]] Version record_version(std::span<const std::byte> bytes) noexcept;

/**
 * @brief Reads the record that these bytes begin with.
 * @throws RecordError if they are cut short, or not what a record is: its checksum is another, say
 */
[[nodiscard]] Record parse_record(std::span<const std::byte> bytes);

/** @throws RecordError if the schema has no such row, or one of another width */
void check_row(const RowRecord& row, const StreamSchema& schema);

}  // namespace millrace
