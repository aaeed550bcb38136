#include "pipelines/compared_rank.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "millrace/pipeline/schedule/eval_pipeline.hpp"
#include "millrace/pipeline/schedule/peak_meter.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/pipeline/sharding/sharded_model.hpp"
#include "pipelines/longer_optimizer.hpp"
#include "workload/workload_source.hpp"

namespace millrace::experiment {
namespace {

/** Samples memory when copies begin and end, because batches are allocated then. */
class Sampler final : public CopyObserver {
 public:
  explicit Sampler(PeakMeter& meter) : meter_(meter) {}
  void copies_begin(Stream&) override { meter_.sample(); }
  void copies_end(Stream&) override { meter_.sample(); }

 private:
  PeakMeter& meter_;
};

/** The pipeline of the cell, for training or for evaluation. */
class Pipeline {
 public:
  Pipeline(const PipelineCell& cell, const PipelineEnvironment& setting, std::size_t copies_ahead) {
    PipelineOptions options = cell.options;
    options.copies_ahead = copies_ahead;
    if (cell.forward_only) {
      evaluation_.emplace(cell.pipeline, setting, options);
    } else {
      training_ = TrainPipeline::make(cell.pipeline, setting, options);
    }
  }
  bool progress(BatchSource& source) {
    return evaluation_ ? evaluation_->progress(source) : training_->progress(source);
  }

 private:
  std::optional<EvalPipeline> evaluation_;
  std::unique_ptr<TrainPipeline> training_;
};

std::map<StreamId, std::string> names(const OrderedDevice& device, const PipelineStreams& streams) {
  std::map<StreamId, std::string> names;
  const auto add = [&](const Stream& stream) { names[stream.id()] = device.name(stream.id()); };
  for (const Stream* const stream : {&streams.main, &streams.copy, &streams.data_dist}) {
    add(*stream);
  }
  for (const Stream& stream : streams.own) add(stream);
  return names;
}

}  // namespace

RankReport run_rank(const ComparedRun& run, unsigned rank, VirtualDevice& device,
                    const std::vector<InputShape>& batches) {
  OrderedDevice ordered{device};
  const auto group = run.ranks.join(rank, ordered);  // from here on, exceptions fail all ranks
  RunMemory memory{ordered,
                   {.allocator = run.cell.allocator,
                    .policy = run.cell.policy,
                    .method = run.cell.options.copy,
                    .checking = &run.checking}};
  std::optional<RunRecording> recording;
  if (run.cell.recorded) recording.emplace(run.machine, device, memory.trace(), device.ordinal());
  PipelineStreams streams{ordered, run.cell.pipeline};
  ModelContext context{memory.memory(), streams.main, true};
  const ShardedModel sharded{run.model, run.plan, *group};
  SparseNN sparse_nn{context, run.model, sharded.embeddings(), sharded.reduction()};
  LongerOptimizer model{sparse_nn, memory.memory(), streams.main, run.cell.optimizer_work};
  const auto exchange = sharded.exchange(context);
  PeakMeter meter{memory.memory(), memory.batches()};
  Sampler sampler{meter};
  Pipeline pipeline{run.cell,
                    {.streams = streams,
                     .batches = memory.batches(),
                     .model = model,
                     .exchange = *exchange,
                     .observer = &sampler},
                    run.workload.copies_ahead};
  warm_pinned_memory(memory.pinned(), batches, streams.copy);
  WorkloadSource source{memory.pinned(), streams.copy, batches};
  ordered.synchronize();
  group->barrier();

  StepMarks steps{memory.trace()};
  RankReport report;
  report.begin = run.machine.now();
  while (pipeline.progress(source)) {
    if (run.workload.run_ahead == 0) streams.main.synchronize();
    steps.step_done();
    report.stranded_peak =
        std::max(report.stranded_peak, memory.memory().usable(streams.main).stranded);
  }
  ordered.synchronize();
  report.end = run.machine.now();
  report.memory = meter.whole();
  report.ladder = memory.ladder(report.memory.reserved.peak);
  report.streams = names(ordered, streams);
  if (recording) {
    RecordedRun recorded{memory.trace(), *recording, report.streams, report.ladder};
    if (!uses_driver_pool(run.cell.allocator, run.cell.options.copy)) {
      recorded.stranded_peak = report.stranded_peak;
    }
    recorded.rank = rank;
    recorded.steps = steps.marks();
    run.cell.recorded(recorded);
  }
  return report;
}

}  // namespace millrace::experiment
