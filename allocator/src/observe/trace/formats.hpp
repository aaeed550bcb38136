#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

class Csv;

/// @name One reader for each format; all throw ParseError
/// @{
[[nodiscard]] AllocationLog read_torch_log(ValueTree tree, const std::string& source);
/** @param most_memory  bytes that what is read may take, at most */
[[nodiscard]] AllocationLog read_rmm_log(Csv& csv, const std::string& source,
                                         std::uint64_t most_memory);
[[nodiscard]] AllocationLog read_lifetimes(Csv& csv, const std::string& source,
                                           std::uint64_t most_memory);
[[nodiscard]] AllocationLog read_millrace_trace(std::string_view bytes, const std::string& source,
                                                std::uint64_t most_memory);
/// @}

[[nodiscard]] bool is_millrace_trace(std::string_view bytes);
[[nodiscard]] bool is_rmm_log(const Csv& csv);
[[nodiscard]] bool is_lifetimes(const Csv& csv);

/**
 * @brief One row of the table of formats, in the order of TraceFormat. Messages and help list the
 * formats of this table. The first row whose `is_csv` returns true reads a file with a CSV header.
 */
struct FormatRow {
  TraceFormat format;
  const char* name;                      ///< "RMM log", as reports show it
  std::string_view description;          ///< "an RMM log (CSV: ...)", as messages and help list it
  bool knows_order = false;              ///< has records, waits, and the streams that use a block
  bool has_lines = false;                ///< LogEvent::position is a line of the file
  bool has_addresses = true;             ///< the log has the address of each block
  bool has_clock = true;                 ///< LogEvent::time_us is in microseconds
  bool (*is_csv)(const Csv&) = nullptr;  ///< nullptr: the format is not CSV
  AllocationLog (*read_csv)(Csv&, const std::string& source, std::uint64_t most_memory) = nullptr;
};

[[nodiscard]] std::span<const FormatRow> format_rows() noexcept;
/** @brief The description of a format's row. */
[[nodiscard]] std::string_view description_of(TraceFormat format) noexcept;

/** @brief Throws if a file has none of the formats, from its first bytes as stored. */
void check_beginning(std::string_view bytes, const std::string& source);

}  // namespace millrace::trace
