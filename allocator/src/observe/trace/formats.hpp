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
 * @brief One row of the table of formats, in the order of TraceFormat. Messages and help list
 * formats from it, and files with a header of CSV are read by the first row whose `is_csv` says
 * yes.
 */
struct FormatRow {
  TraceFormat format;
  const char* name;                      ///< "RMM log", as reports show it
  std::string_view description;          ///< "an RMM log (CSV: ...)", as messages and help list it
  bool knows_order = false;              ///< has records and waits, and who uses a block
  bool (*is_csv)(const Csv&) = nullptr;  ///< nullptr: the format is not CSV
  AllocationLog (*read_csv)(Csv&, const std::string& source, std::uint64_t most_memory) = nullptr;
};

[[nodiscard]] std::span<const FormatRow> format_rows() noexcept;
/** @brief The description of a format's row. */
[[nodiscard]] std::string_view description_of(TraceFormat format) noexcept;

/** @brief Refuses what is none of the formats, from the first bytes of a file as it lies there. */
void check_beginning(std::string_view bytes, const std::string& source);

}  // namespace millrace::trace
