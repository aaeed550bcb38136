#include "millrace/pipeline/schedule/pipeline_kind.hpp"

#include "millrace/text/parse_enum.hpp"

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
  return text::parse_enum("pipeline", name, kPipelineKinds);
}

}  // namespace millrace
