#include "train/json.hpp"

#include <nlohmann/json.hpp>

#include "footprint/options.hpp"
#include "millrace/observe/report.hpp"
#include "stream/json.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json document_of(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  return {{"examples", evaluation->examples}, {"loss", evaluation->loss}, {"auc", evaluation->auc}};
}

Json document_of(const EpochResult& epoch) {
  return {{"epoch", epoch.epoch},
          {"steps", epoch.trained.steps},
          {"examples", epoch.trained.examples},
          {"loss", epoch.trained.loss},
          {"seconds", epoch.seconds},
          {"examples_per_second", epoch.examples_per_second()},
          {"test", document_of(epoch.tested)}};
}

Json document_of(const MalformedLines& lines) {
  Json first = Json::array();
  for (const MalformedLine& line : lines.first) {
    first.push_back({{"line", line.number}, {"reason", line.reason}, {"text", line.text}});
  }
  return {{"count", lines.count}, {"first", std::move(first)}};
}

Json document_of(const TrainingAccounting& accounting, bool usable_known) {
  const auto name = [&](StreamId stream) {
    const auto known = accounting.streams.find(stream);
    return known == accounting.streams.end() ? std::string{"other"} : known->second;
  };
  Json document{
      {"bytes", nlohmann::json(accounting.bytes)},
      {"counts", nlohmann::json(accounting.counts)},
      {"ladder", explain(accounting.ladder, name)},
      {"ladder_of_all_allocations", accounting.whole_ladder},
      {"usable_by_main", usable_known ? Json(nlohmann::json(accounting.usable_by_main)) : Json()}};
  document["races"] = accounting.races ? Json(*accounting.races) : Json();
  return document;
}

Json document_of(const TrainPlan& plan, const std::vector<RankMemory>& ranks) {
  if (plan.group.empty()) return nullptr;
  Json memory = Json::array();
  for (const RankMemory& of_rank : ranks) {
    memory.push_back({{"peak_reserved_bytes", of_rank.reserved},
                      {"peak_active_bytes", of_rank.active},
                      {"peak_allocated_bytes", of_rank.allocated},
                      {"races", of_rank.races}});
  }
  return {{"count", plan.sharding.ranks},
          {"group", plan.group},
          {"sharding", Json::parse(plan.sharding_json)},
          {"memory", std::move(memory)}};
}

Json document_of(const std::optional<TableCache>& cache) {
  if (!cache) return nullptr;
  return {{"load_factor", cache->load_factor}, {"policy", millrace::to_string(cache->policy)}};
}

Json document_of(const std::optional<CacheCounts>& counts) {
  if (!counts) return nullptr;
  return {{"hits", counts->hits},
          {"loads", counts->loads},
          {"write_backs", counts->write_backs},
          {"unplaced", counts->unplaced}};
}

Json options_of(const TrainOptions& options, const TrainPlan& plan) {
  const TrainingOptions& training = options.training;
  return {{"pipeline", millrace::to_string(training.pipeline)},
          {"copy", millrace::to_string(training.copy)},
          {"waits", to_string(training.waits)},
          {"allocator", training.allocator},
          {"device", training.device},
          {"cache", document_of(options.cache)},
          {"epochs", options.epochs},
          {"batch_size", plan.batch_size},
          {"seed", plan.seed}};
}

}  // namespace

nlohmann::ordered_json to_document(const TrainOptions& options, const TrainResult& result) {
  const TrainPlan& plan = result.plan;
  Json epochs = Json::array();
  for (const EpochResult& epoch : result.epochs) epochs.push_back(document_of(epoch));
  double seconds = 0;
  std::uint64_t examples = 0;
  for (const EpochResult& epoch : result.epochs) {
    seconds += epoch.seconds;
    examples += epoch.trained.examples;
  }
  const std::optional<std::uint64_t> stale = stale_steps(options, result);
  return {
      {"schema", "millrace.train/1"},
      {"options", options_of(options, plan)},
      {"data",
       {{"name", options.data.name},
        {"examples", plan.examples ? Json(*plan.examples) : Json()},
        {"tested_on", plan.tested_on},
        {"malformed_lines", document_of(result.malformed)}}},
      {"model", Json::parse(plan.model.to_json())},
      {"parameters", plan.parameters},
      {"ranks", document_of(plan, result.ranks)},
      {"epochs", std::move(epochs)},
      {"loss", result.epochs.empty() ? Json() : Json(result.epochs.back().trained.loss)},
      {"test", document_of(result.final)},
      {"seconds", seconds},
      {"examples_per_second", seconds > 0 ? Json(static_cast<double>(examples) / seconds) : Json()},
      {"steps", result.steps},
      {"position", {{"epoch", result.position.epoch}, {"batch", result.position.batch}}},
      {"stale_steps", stale ? Json(*stale) : Json()},
      {"weights_digest", "xxh3-128:" + result.digest},
      {"cache", document_of(result.cache)},
      {"stream", result.stream ? to_document(*result.stream) : Json()},
      {"stream_complete", result.stream ? Json(result.stream_complete) : Json()},
      {"interrupted", result.interrupted},
      {"saved", result.saved ? Json(options.save->string()) : Json()},
      {"memory", document_of(result.accounting, options.training.allocator != "driver")}};
}

}  // namespace millrace::cli
