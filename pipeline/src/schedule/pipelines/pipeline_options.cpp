#include "millrace/pipeline/schedule/pipeline_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace millrace {
namespace {

constexpr std::array<std::string_view, kLookupPositions.size()> kPositions{
    "after-optimizer", "before-optimizer", "after-data-dist"};
constexpr std::array<std::string_view, kLookupStreams.size()> kStreams{"data-dist", "own", "main"};

template <typename Named, std::size_t count>
Named parse(std::string_view what, std::string_view name, const std::array<Named, count>& all) {
  for (const Named named : all) {
    if (to_string(named) == name) return named;
  }
  std::array<std::string_view, count> names;
  for (std::size_t i = 0; i < count; ++i) names[i] = to_string(all[i]);
  throw std::invalid_argument{
      fmt::format("unknown {} '{}' (expected {})", what, name, fmt::join(names, ", "))};
}

}  // namespace

std::string_view to_string(LookupPosition position) noexcept {
  return kPositions[static_cast<std::size_t>(position)];
}

LookupPosition parse_lookup_position(std::string_view name) {
  return parse("lookup position", name, kLookupPositions);
}

std::string_view to_string(LookupStream stream) noexcept {
  return kStreams[static_cast<std::size_t>(stream)];
}

LookupStream parse_lookup_stream(std::string_view name) {
  return parse("lookup stream", name, kLookupStreams);
}

}  // namespace millrace
