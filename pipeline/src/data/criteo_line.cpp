#include "data/criteo_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/random.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace {
namespace {

constexpr std::size_t kColumnsOfLine = 1 + kCriteoIntegers + kCriteoCategories;

/** FNV-1a (Fowler, Noll, Vo), then mixed, because its low bits are poorly distributed. */
std::uint64_t hash_of(std::string_view text, std::uint64_t column) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return Draws::mixed(hash + column);
}

std::string parse_integer(std::string_view field, std::size_t number, float& value) {
  value = 0;
  if (field.empty()) return {};
  const auto integer = text::parse_number<std::int64_t>(field);
  if (!integer) return fmt::format("I{} is not an integer", number + 1);
  // Counts vary over orders of magnitude. A negative count has no logarithm, and becomes 0.
  value = static_cast<float>(std::log1p(static_cast<double>(std::max<std::int64_t>(*integer, 0))));
  return {};
}

}  // namespace

std::string parse_criteo_line(std::string_view line, std::span<const std::size_t> rows,
                              CriteoRow& row) {
  const auto columns = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
  if (columns != kColumnsOfLine) return fmt::format("{} columns, not {}", columns, kColumnsOfLine);
  const auto next_field = [&line] {
    const std::size_t tab = line.find('\t');
    const std::string_view field = line.substr(0, tab);
    if (tab != std::string_view::npos) line.remove_prefix(tab + 1);
    return field;
  };

  const std::string_view label = next_field();
  if (label != "0" && label != "1") return "the label is neither 0 nor 1";
  row.label = label == "1" ? 1.0F : 0.0F;
  for (std::size_t i = 0; i < kCriteoIntegers; ++i) {
    std::string problem = parse_integer(next_field(), i, row.dense[i]);
    if (!problem.empty()) return problem;
  }
  for (std::size_t i = 0; i < kCriteoCategories; ++i) {
    const std::string_view field = next_field();
    row.ids[i] = field.empty() ? -1 : static_cast<std::int64_t>(hash_of(field, i) % rows[i]);
  }
  return {};
}

}  // namespace millrace
