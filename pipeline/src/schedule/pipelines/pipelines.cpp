#include "schedule/pipelines/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

// In the order of PipelineKind. Like in TorchRec, side streams of the sparse-dist family have a
// higher priority than main; those of base do not.
constexpr std::array kRows{
    PipelineRow{.kind = PipelineKind::sparse_dist,
                .traits = {.name = "sparse-dist",
                           .summary = "exchanges the next batch's features on a side stream"},
                .make = make_sparse_dist},
    PipelineRow{.kind = PipelineKind::base,
                .traits = {.name = "base",
                           .summary = "holds one batch; exchanges features on the main stream"},
                .make = make_base,
                .side_priority = 0},
    PipelineRow{.kind = PipelineKind::sparse_dist_lite,
                .traits = {.name = "sparse-dist-lite",
                           .summary = "as base, but keeps a batch until its step ends"},
                .make = make_sparse_dist_lite},
    PipelineRow{
        .kind = PipelineKind::fused_sparse_dist,
        .traits = {.name = "fused-sparse-dist",
                   .summary = "as sparse-dist, and looks the next batch up during the optimizer",
                   .lookup_options = true},
        .make = make_fused_sparse_dist,
        .own_stream = "lookup"},
    PipelineRow{
        .kind = PipelineKind::semi_sync,
        .traits = {.name = "semi-sync",
                   .summary = "looks the next batch up before backward, so lookups lack one update",
                   .stale = true,
                   .evaluated_by = PipelineKind::sparse_dist},
        .make = make_semi_sync},
    PipelineRow{.kind = PipelineKind::prefetch_sparse_dist,
                .traits = {.name = "prefetch-sparse-dist",
                           .summary = "as sparse-dist, and prefetches rows of cached tables",
                           .for_cached_tables = true},
                .make = make_prefetch_sparse_dist,
                .own_stream = "prefetch"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].kind != static_cast<PipelineKind>(i)) return false;
  }
  return true;
}
static_assert(in_order());

constexpr std::array kKinds = [] {
  std::array<PipelineKind, kRows.size()> kinds{};
  std::ranges::transform(kRows, kinds.begin(), &PipelineRow::kind);
  return kinds;
}();

StreamOptions side_stream(PipelineKind kind, std::string name) {
  return {.blocking = false, .priority = pipeline_row(kind).side_priority, .name = std::move(name)};
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): a constant, though not constexpr here
constinit const std::span<const PipelineKind> kPipelineKinds{kKinds};

const PipelineRow& pipeline_row(PipelineKind kind) noexcept {
  return kRows[static_cast<std::size_t>(kind)];
}

const PipelineTraits& traits_of(PipelineKind kind) noexcept { return pipeline_row(kind).traits; }

std::string_view to_string(PipelineKind kind) noexcept { return traits_of(kind).name; }

PipelineKind parse_pipeline_kind(std::string_view name) {
  return text::parse_enum("pipeline", name, kPipelineKinds);
}

PipelineStreams::PipelineStreams(OrderedDevice& device, PipelineKind kind)
    : main(device, {.blocking = false, .priority = 0, .name = kMainStream}),
      copy(device, side_stream(kind, "copy")),
      data_dist(device, side_stream(kind, "data-dist")) {
  add(pipeline_row(kind).own_stream);
}

void PipelineStreams::add(std::string_view name) {
  if (name.empty()) return;
  own.emplace_back(main.device(), StreamOptions{.blocking = false, .name = std::string{name}});
}

Stream& PipelineStreams::named(std::string_view name) {
  const auto found = std::ranges::find_if(
      own, [&](const Stream& stream) { return stream.device().name(stream.id()) == name; });
  if (found != own.end()) return *found;
  throw std::invalid_argument{
      fmt::format("these streams are for another pipeline: this one needs a {} stream", name)};
}

void TrainPipeline::stash_gradients(Buffer) {
  throw std::logic_error{"this pipeline does not stash gradients"};
}

std::unique_ptr<TrainPipeline> TrainPipeline::make(PipelineKind kind,
                                                   const PipelineEnvironment& environment,
                                                   const PipelineOptions& options) {
  return pipeline_row(kind).make(environment, options);
}

}  // namespace millrace
