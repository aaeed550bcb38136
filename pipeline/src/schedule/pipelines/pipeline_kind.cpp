#include "millrace/pipeline/schedule/pipeline_kind.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace millrace {
namespace {

constexpr std::array<std::string_view, kPipelineKinds.size()> kNames{
    "sparse-dist",       "base",      "sparse-dist-lite",
    "fused-sparse-dist", "semi-sync", "prefetch-sparse-dist"};

}  // namespace

std::string_view to_string(PipelineKind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

PipelineKind parse_pipeline_kind(std::string_view name) {
  for (const PipelineKind kind : kPipelineKinds) {
    if (to_string(kind) == name) return kind;
  }
  throw std::invalid_argument{
      fmt::format("unknown pipeline '{}' (expected {})", name, fmt::join(kNames, ", "))};
}

}  // namespace millrace
