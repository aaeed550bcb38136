#include "schedule/pipelines/pipelines.hpp"

#include <stdexcept>
#include <utility>

#include "schedule/pipelines/pipeline_core.hpp"

namespace millrace {
namespace {

class BasePipeline final : public PipelineCore {
 public:
  BasePipeline(const PipelineSetting& setting, const PipelineOptions& options)
      : PipelineCore(setting, options, 1, setting.streams.main) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
  }

  // The batch goes when forward is enqueued: backward needs no more than what the model keeps.
  void step(BatchInFlight& current) override {
    ahead([&] { draw(); });
    model().zero_gradients();
    start(current);
    receive(current);
    arrange(current);
    train([&] {
      forward(current);
      release_input(current);
      backward(current, main());
      ahead([&] { copy_next(); });
      model().optimizer_step();
    });
  }
};

class SparseDistLitePipeline final : public PipelineCore {
 public:
  SparseDistLitePipeline(const PipelineSetting& setting, const PipelineOptions& options)
      : PipelineCore(setting, options, 2, setting.streams.main) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
  }

  void step(BatchInFlight& current) override {
    model().zero_gradients();
    start(current);
    receive(current);
    arrange(current);
    train([&] {
      forward(current);
      backward(current, main());
      ahead([&] { copy_next(); });
      model().optimizer_step();
    });
  }
};

class SparseDistPipeline final : public PipelineCore {
 public:
  SparseDistPipeline(const PipelineSetting& setting, const PipelineOptions& options)
      : PipelineCore(setting, options, 3, setting.streams.data_dist),
        data_dist_(setting.streams.data_dist) {}

 private:
  void fill() override {
    if (oldest() == nullptr) copy_next();
    if (oldest() == nullptr) return;
    finish_exchange(*oldest());
    if (second() == nullptr) ahead([&] { copy_next(); });
  }

  void step(BatchInFlight& current) override {
    model().zero_gradients();
    if (coarse()) main().wait_stream(data_dist_);
    take_input(current);
    ahead([&] {
      if (second() != nullptr) start(*second());
    });
    ahead([&] { copy_next(); });
    hand_features_to(current, main());
    train([&] {
      forward(current);
      ahead([&] {
        if (second() != nullptr) finish_exchange(*second());
      });
      backward(current, main());
      model().optimizer_step();
    });
  }

  Stream& data_dist_;
};

// TorchRec's SparseDist family runs its side streams before main, Base does not.
StreamOptions side_stream(PipelineKind kind, std::string name) {
  return {
      .blocking = false, .priority = kind == PipelineKind::base ? 0 : -1, .name = std::move(name)};
}

}  // namespace

PipelineStreams::PipelineStreams(OrderedDevice& device, PipelineKind kind)
    : main(device, {.blocking = false, .priority = 0, .name = kMainStream}),
      copy(device, side_stream(kind, "copy")),
      data_dist(device, side_stream(kind, "data-dist")) {
  if (kind == PipelineKind::fused_sparse_dist) {
    lookup.emplace(device, StreamOptions{.blocking = false, .priority = 0, .name = "lookup"});
  }
  if (kind == PipelineKind::prefetch_sparse_dist) {
    prefetch.emplace(device, StreamOptions{.blocking = false, .priority = 0, .name = "prefetch"});
  }
}

void TrainPipeline::stash_gradients(Buffer) {
  throw std::logic_error{"this pipeline does not stash gradients"};
}

std::unique_ptr<TrainPipeline> TrainPipeline::make(PipelineKind kind,
                                                   const PipelineSetting& setting,
                                                   const PipelineOptions& options) {
  switch (kind) {
    case PipelineKind::sparse_dist:
      return std::make_unique<SparseDistPipeline>(setting, options);
    case PipelineKind::base:
      return std::make_unique<BasePipeline>(setting, options);
    case PipelineKind::sparse_dist_lite:
      return std::make_unique<SparseDistLitePipeline>(setting, options);
    case PipelineKind::fused_sparse_dist:
      return make_fused_sparse_dist(setting, options);
    case PipelineKind::semi_sync:
      return make_semi_sync(setting, options);
    case PipelineKind::prefetch_sparse_dist:
      return make_prefetch_sparse_dist(setting, options);
  }
  throw std::invalid_argument{"unknown pipeline"};
}

}  // namespace millrace
