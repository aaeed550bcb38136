#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::sink {

/// @file
/// Keys of messages. A topic is compacted by key, and the key of a row decides its partition. Keys
/// of rows have 9 bytes or more, others fewer.

/**
 * @brief Returns the key of a row: the table's name, a zero byte, the row as 8 bytes, big-endian.
 */
[[nodiscard]] std::string row_key(std::string_view table, std::int64_t row);
[[nodiscard]] std::string commit_key(std::uint32_t rank);
[[nodiscard]] std::string schema_key();

/**
 * @brief Returns the partition of a row, which never changes: XXH3-64 of its key, modulo
 * `partitions`.
 */
[[nodiscard]] std::int32_t partition_of(std::string_view key, std::int32_t partitions) noexcept;

}  // namespace millrace::sink
