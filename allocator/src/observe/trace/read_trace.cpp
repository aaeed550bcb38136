#include "millrace/observe/trace/read_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/pickle.hpp"
#include "observe/trace/bytes.hpp"
#include "observe/trace/csv/csv.hpp"
#include "observe/trace/formats.hpp"
#include "observe/trace/value/field.hpp"

namespace millrace::trace {

namespace {

constexpr std::string_view kFormats =
    "a PyTorch memory snapshot (pickle or JSON), a log of RMM "
    "(Thread,Time,Action,Pointer,Size,Stream) "
    "or lifetimes (id,lower,upper,size)";

bool looks_like_text(std::string_view line) {
  for (const char c : line) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r') return false;
  }
  return true;
}

AllocationLog read_csv(std::string_view text, const std::string& source) {
  const std::string_view first_line = text.substr(0, std::min<std::size_t>(text.find('\n'), 4096));
  if (!looks_like_text(first_line)) {
    const bool zip = text.starts_with("PK\x03\x04");
    throw ParseError{source, "",
                     fmt::format("is {}, and not {}",
                                 zip ? "a zip archive (torch.save writes those; use pickle.dump)"
                                     : "some other binary file",
                                 kFormats)};
  }
  Csv csv{text, source};
  if (is_rmm_log(csv)) return read_rmm_log(csv, source);
  if (is_lifetimes(csv)) return read_lifetimes(csv, source);
  throw ParseError{source, "line 1",
                   fmt::format("{} begins neither {}", quoted(first_line), kFormats)};
}

}  // namespace

AllocationLog parse_trace(std::string bytes, const std::string& source, const TraceLimits& limits) {
  constexpr char pickle_begins = '\x80';
  bytes = gunzip(std::move(bytes), source, limits);
  if (bytes.starts_with(pickle_begins)) {
    return read_torch_log(read_pickle(std::move(bytes), source, limits), source);
  }
  const auto first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (bytes[first] == '{' || bytes[first] == '[')) {
    return read_torch_log(read_json(bytes, source, limits), source);
  }
  return read_csv(bytes, source);
}

AllocationLog read_trace(const std::filesystem::path& file, const TraceLimits& limits) {
  return parse_trace(read_bytes(file, limits), file.string(), limits);
}

}  // namespace millrace::trace
