#include "cli/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cli/error.hpp"
#include "cli/suggestions.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::cli {
namespace {

template <typename Number>
Number read_in_range(std::string_view option, std::string_view text, Number least, Number most,
                     std::string_view kind) {
  const std::optional<Number> number = text::parse_number<Number>(text);
  if (number && *number >= least && *number <= most) return *number;
  throw UsageError{fmt::format("'{}' is not {} from {} to {}", text, kind, least, most),
                   std::string{option}};
}

}  // namespace

std::size_t read_bytes(std::string_view option, std::string_view text, std::size_t most) {
  const std::string right =
      fmt::format("bytes, or a number with a unit (512MiB, 1GiB, 1.5GB): more than 0, at most {}",
                  format_bytes(most));
  std::size_t bytes = 0;
  try {
    bytes = parse_bytes(text);
  } catch (const std::invalid_argument&) {
    throw UsageError{fmt::format("'{}' is not a size", text), std::string{option}, right};
  }
  if (bytes == 0 || bytes > most) {
    throw UsageError{fmt::format("a size of {} cannot be used", text), std::string{option}, right};
  }
  return bytes;
}

std::uint64_t read_whole(std::string_view option, std::string_view text, std::uint64_t least,
                         std::uint64_t most) {
  return read_in_range(option, text, least, most, "a whole number");
}

double read_number(std::string_view option, std::string_view text, double least, double most) {
  return read_in_range(option, text, least, most, "a number");
}

std::string read_name(std::string_view option, std::string_view kind, std::string_view text,
                      const std::vector<std::string>& known) {
  const auto found = std::find(known.begin(), known.end(), text);
  if (found != known.end()) return *found;
  throw UsageError{fmt::format("unknown {} '{}'", kind, text), std::string{option},
                   did_you_mean(text, known, fmt::format("{}", fmt::join(known, ", ")))};
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::vector<std::string> read_names(std::string_view option, std::string_view kind,
                                    std::string_view text, const std::vector<std::string>& known) {
  std::vector<std::string> accepted = known;
  accepted.emplace_back("all");
  std::set<std::string> given;
  for (const std::string_view name : split_list(text)) {
    given.insert(read_name(option, kind, name, accepted));
  }
  if (given.contains("all")) return known;
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& name) { return given.contains(name); });
  return names;
}

}  // namespace millrace::cli
