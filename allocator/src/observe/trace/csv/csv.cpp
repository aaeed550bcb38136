#include "observe/trace/csv/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "millrace/observe/trace/parse_error.hpp"
#include "observe/trace/value/field.hpp"

namespace millrace::trace {

namespace {

constexpr std::size_t kMostColumns = 32;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r";
  const auto from = text.find_first_not_of(space);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(space) - from + 1);
}

enum class Number { good, malformed, out_of_range };

template <typename Integer>
Number read(std::string_view text, Integer& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc::result_out_of_range) return Number::out_of_range;
  return error == std::errc{} && end == text.data() + text.size() ? Number::good
                                                                  : Number::malformed;
}

}  // namespace

Csv::Csv(std::string_view text, const std::string& source) : rest_{text}, source_{source} {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (rest_.starts_with(byte_order_mark)) rest_.remove_prefix(byte_order_mark.size());
  std::string_view line;
  if (!read_line(line)) throw ParseError{source, "", "the file is empty"};
  split(line, header_);
}

void Csv::fail(const std::string& problem) const {
  throw ParseError{source_, fmt::format("line {}", line_), problem};
}

bool Csv::read_line(std::string_view& line) {
  while (!rest_.empty()) {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line = trimmed(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    if (!line.empty()) return true;
  }
  return false;
}

void Csv::split(std::string_view line, std::vector<std::string_view>& fields) const {
  fields.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    if (fields.size() == kMostColumns) fail(fmt::format("has more than {} columns", kMostColumns));
    line.remove_prefix(comma + 1);
  }
}

std::size_t Csv::column(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  if (found == header_.end()) {
    throw ParseError{source_, "line 1", fmt::format("the header has no column {}", quoted(name))};
  }
  if (std::find(found + 1, header_.end(), name) != header_.end()) {
    throw ParseError{source_, "line 1",
                     fmt::format("the header has column {} twice", quoted(name))};
  }
  return static_cast<std::size_t>(found - header_.begin());
}

bool Csv::next() {
  std::string_view line;
  if (!read_line(line)) return false;
  split(line, fields_);
  if (fields_.size() != header_.size()) {
    fail(fmt::format("has {} columns where the header has {}{}", fields_.size(), header_.size(),
                     rest_.empty() ? "; the file seems cut short" : ""));
  }
  return true;
}

std::uint64_t Csv::natural(std::size_t column) const {
  std::uint64_t value = 0;
  const std::string_view text = fields_[column];
  if (text.starts_with('-') && text.size() > 1) {
    fail(fmt::format("{} is {}, should not be negative", header_[column], quoted(text)));
  }
  switch (read(text, value)) {
    case Number::good:
      return value;
    case Number::out_of_range:
      fail(fmt::format("{} is {}, which does not fit in 64 bits", header_[column], quoted(text)));
    case Number::malformed:
      break;
  }
  fail(fmt::format("{} is {}, should be a number", header_[column], quoted(text)));
}

std::int64_t Csv::integer(std::size_t column) const {
  std::int64_t value = 0;
  if (read(fields_[column], value) == Number::good) return value;
  fail(fmt::format("{} is {}, should be a number of 64 bits", header_[column],
                   quoted(fields_[column])));
}

std::uint64_t Csv::hexadecimal(std::size_t column) const {
  std::string_view digits = fields_[column];
  if (digits == "(nil)" || digits == "nullptr") return 0;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  std::uint64_t value = 0;
  if (read(digits, value, 16) == Number::good) return value;
  fail(fmt::format("{} is {}, should be a hexadecimal number of 64 bits", header_[column],
                   quoted(fields_[column])));
}

}  // namespace millrace::trace
