#include "millrace/pipeline/schedule/pipeline_options.hpp"

#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

constexpr std::array<std::string_view, kLookupPositions.size()> kPositions{
    "after-optimizer", "before-optimizer", "after-data-dist"};
constexpr std::array<std::string_view, kLookupStreams.size()> kStreams{"data-dist", "own", "main"};

}  // namespace

std::string_view to_string(LookupPosition position) noexcept {
  return kPositions[static_cast<std::size_t>(position)];
}

LookupPosition parse_lookup_position(std::string_view name) {
  return text::parse_enum("lookup position", name, kLookupPositions);
}

std::string_view to_string(LookupStream stream) noexcept {
  return kStreams[static_cast<std::size_t>(stream)];
}

LookupStream parse_lookup_stream(std::string_view name) {
  return text::parse_enum("lookup stream", name, kLookupStreams);
}

}  // namespace millrace
