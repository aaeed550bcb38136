#include "observe/trace/formats.hpp"

#include <algorithm>
#include <array>

#include "millrace/observe/trace/read_trace.hpp"

namespace millrace::trace {
namespace {

/** What a column of the format says; false for no format. */
bool row_says(TraceFormat format, bool FormatRow::*column) noexcept {
  const auto rows = format_rows();
  const auto row = std::ranges::find(rows, format, &FormatRow::format);
  return row != rows.end() && (*row).*column;
}

}  // namespace

std::span<const FormatRow> format_rows() noexcept {
  static constexpr std::array kRows{
      FormatRow{.format = TraceFormat::torch_snapshot,
                .name = "PyTorch snapshot",
                .description = "a PyTorch memory snapshot (pickle or JSON)"},
      FormatRow{.format = TraceFormat::rmm_log,
                .name = "RMM log",
                .description = "an RMM log (CSV: Thread,Time,Action,Pointer,Size,Stream)",
                .has_lines = true,
                .is_csv = is_rmm_log,
                .read_csv = read_rmm_log},
      FormatRow{.format = TraceFormat::lifetimes,
                .name = "lifetimes",
                .description = "lifetimes (CSV: id,lower,upper,size)",
                .has_lines = true,
                .has_addresses = false,
                .has_clock = false,
                .is_csv = is_lifetimes,
                .read_csv = read_lifetimes},
      FormatRow{.format = TraceFormat::millrace,
                .name = "Millrace trace",
                .description = "a trace of Millrace (run --record)",
                .knows_order = true},
  };
  return kRows;
}

std::string_view description_of(TraceFormat format) noexcept {
  const auto rows = format_rows();
  const auto row = std::ranges::find(rows, format, &FormatRow::format);
  return row == rows.end() ? "?" : row->description;
}

const char* to_string(TraceFormat format) noexcept {
  for (const FormatRow& row : format_rows()) {
    if (row.format == format) return row.name;
  }
  return "?";
}

bool knows_order(TraceFormat format) noexcept { return row_says(format, &FormatRow::knows_order); }

bool has_lines(TraceFormat format) noexcept { return row_says(format, &FormatRow::has_lines); }

bool has_addresses(TraceFormat format) noexcept {
  return row_says(format, &FormatRow::has_addresses);
}

bool has_clock(TraceFormat format) noexcept { return row_says(format, &FormatRow::has_clock); }

std::string trace_formats() {
  std::string list;
  for (const FormatRow& row : format_rows()) {
    if (!list.empty()) list += ", ";
    list += row.description;
  }
  return list + "; each may be gzipped";
}

}  // namespace millrace::trace
