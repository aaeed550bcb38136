#include "observe/trace/formats.hpp"

#include <algorithm>
#include <array>

#include "millrace/observe/trace/read_trace.hpp"

namespace millrace::trace {

std::span<const FormatRow> format_rows() noexcept {
  static constexpr std::array kRows{
      FormatRow{.format = TraceFormat::torch_snapshot,
                .name = "PyTorch snapshot",
                .description = "a PyTorch memory snapshot (pickle or JSON)"},
      FormatRow{.format = TraceFormat::rmm_log,
                .name = "RMM log",
                .description = "an RMM log (CSV: Thread,Time,Action,Pointer,Size,Stream)",
                .is_csv = is_rmm_log,
                .read_csv = read_rmm_log},
      FormatRow{.format = TraceFormat::lifetimes,
                .name = "lifetimes",
                .description = "lifetimes (CSV: id,lower,upper,size)",
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

bool knows_order(TraceFormat format) noexcept {
  const auto rows = format_rows();
  const auto row = std::ranges::find(rows, format, &FormatRow::format);
  return row != rows.end() && row->knows_order;
}

std::string trace_formats() {
  std::string list;
  for (const FormatRow& row : format_rows()) {
    if (!list.empty()) list += ", ";
    list += row.description;
  }
  return list + "; each may be gzipped";
}

}  // namespace millrace::trace
