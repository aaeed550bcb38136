#include "millrace/observe/trace/read_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/pickle.hpp"
#include "observe/trace/bytes.hpp"
#include "observe/trace/csv/csv.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/value/field.hpp"

namespace millrace::trace {

namespace {

bool looks_like_text(std::string_view line) {
  for (const char c : line) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r') return false;
  }
  return true;
}

constexpr char kPickleBegins = '\x80';
constexpr std::string_view kGzipBegins = "\x1f\x8b";

bool is_json(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);  // a byte order mark
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

/** Reads a file whose beginning is of this format; errors have it. */
template <typename Read>
AllocationLog read_as(TraceFormat format, const Read& read) {
  try {
    return read();
  } catch (const ParseError& error) {
    throw ParseError{error, std::string{description_of(format)}};
  }
}

AllocationLog read_csv(std::string_view text, const std::string& source,
                       const MemoryBudget& memory) {
  Csv csv{text, source};
  for (const FormatRow& row : format_rows()) {
    if (row.is_csv == nullptr || !row.is_csv(csv)) continue;
    return read_as(row.format, [&] { return row.read_csv(csv, source, memory.most()); });
  }
  const std::string_view first_line = text.substr(0, std::min<std::size_t>(text.find('\n'), 4096));
  throw ParseError{source, "line 1",
                   fmt::format("{} is not the beginning of a known format (expected {})",
                               quoted(first_line), trace_formats())};
}

AllocationLog parse_inflated(std::string bytes, const std::string& source,
                             const TraceLimits& limits) {
  check_beginning(std::string_view{bytes}.substr(0, 1 << 16), source);
  if (bytes.starts_with(kPickleBegins)) {
    return read_as(TraceFormat::torch_snapshot, [&] {
      return read_torch_log(read_pickle(std::move(bytes), source, limits), source);
    });
  }
  if (is_millrace_trace(bytes)) {
    return read_as(TraceFormat::millrace, [&] {
      return read_millrace_trace(bytes, source, MemoryBudget{bytes.size(), limits}.most());
    });
  }
  if (is_json(bytes)) {
    return read_as(TraceFormat::torch_snapshot, [&] {
      return read_torch_log(read_json(std::move(bytes), source, limits), source);
    });
  }
  return read_csv(bytes, source, MemoryBudget{bytes.size(), limits});
}

template <typename Read>
AllocationLog within_memory(const std::string& source, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw ParseError{source, "",
                     "the machine does not give the memory that reading this trace takes; free "
                     "some, or record fewer events"};
  }
}

}  // namespace

void check_beginning(std::string_view bytes, const std::string& source) {
  if (bytes.starts_with(kGzipBegins) || bytes.starts_with(kPickleBegins) || is_json(bytes) ||
      is_millrace_trace(bytes))
    return;
  const std::string_view first_line =
      bytes.substr(0, std::min<std::size_t>(bytes.find('\n'), 4096));
  if (looks_like_text(first_line)) return;
  const bool zip = bytes.starts_with("PK\x03\x04");
  throw ParseError{source, "",
                   fmt::format("is {} (expected {})",
                               zip ? "a zip archive; torch.save writes those: use pickle.dump"
                                   : "a binary file of another format",
                               trace_formats())};
}

AllocationLog parse_trace(std::string bytes, const std::string& source, const TraceLimits& limits) {
  return within_memory(source, [&] {
    if (!bytes.starts_with(kGzipBegins)) return parse_inflated(std::move(bytes), source, limits);
    const TraceLimits of_gzip = MemoryBudget::for_gzip(limits, bytes.size());
    return parse_inflated(gunzip(std::move(bytes), source, limits), source, of_gzip);
  });
}

AllocationLog read_trace(const std::filesystem::path& file, const TraceLimits& limits) {
  return within_memory(
      file.string(), [&] { return parse_trace(read_bytes(file, limits), file.string(), limits); });
}

}  // namespace millrace::trace
