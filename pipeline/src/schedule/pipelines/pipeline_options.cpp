#include "millrace/pipeline/schedule/pipeline_options.hpp"

namespace millrace {
namespace {

constexpr std::array<std::string_view, kLookupPositions.size()> kPositions{
    "after-optimizer", "before-optimizer", "after-data-dist"};
constexpr std::array<std::string_view, kLookupStreams.size()> kStreams{"data-dist", "own", "main"};

}  // namespace

std::string_view to_string(LookupPosition position) noexcept {
  return kPositions[static_cast<std::size_t>(position)];
}

std::string_view to_string(LookupStream stream) noexcept {
  return kStreams[static_cast<std::size_t>(stream)];
}

}  // namespace millrace
