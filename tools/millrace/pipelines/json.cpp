#include "pipelines/json.hpp"

#include "cli/figures.hpp"
#include "cli/shares.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json explained(const PipelineRow& row) {
  const auto& streams = row.example.streams;
  const auto name_of = [&](StreamId stream) {
    const auto known = streams.find(stream);
    return known == streams.end() ? std::string{"another stream"} : known->second;
  };
  return shares_of(row.example.ladder, name_of, row.knows_usable());
}

Json utilization_of(const experiment::PipelineRun& run) {
  Json engines = Json::object();
  for (const Engine engine :
       {Engine::compute, Engine::host_to_device, Engine::device_to_host, Engine::link}) {
    const Nanoseconds busy = run.engines.busy[static_cast<std::size_t>(engine)];
    engines[millrace::to_string(engine)] =
        static_cast<double>(busy.count()) / static_cast<double>(run.runtime.count());
  }
  return engines;
}

Json row_of(const PipelineRow& row, const experiment::Workload& workload) {
  Json json{{"pipeline", millrace::to_string(row.cell.pipeline)},
            {"copy", millrace::to_string(row.cell.options.copy)},
            {"waits", millrace::to_string(row.cell.options.waits)},
            {"allocator", row.cell.allocator},
            {"optimizer_work", row.cell.optimizer_work},
            {"forward_only", row.cell.forward_only}};
  if (traits_of(row.cell.pipeline).lookup_options) {
    const LookupOptions& lookup = row.cell.options.lookup;
    json["lookup"] = {{"position", millrace::to_string(lookup.position)},
                      {"stream", millrace::to_string(lookup.stream)}};
  }
  if (!row.ok()) {
    json["error"] = row.failure;
    return json;
  }
  const experiment::PipelineRun& run = row.example;
  json["runtime_ms"] = {{"p50", in_milliseconds(row.runtime_p50)},
                        {"p90", in_milliseconds(row.runtime_p90)}};
  json["bound_ms"] = in_milliseconds(row.bound);
  json["examples_per_second"] = examples_per_second(row, workload);
  json["peak_requested_bytes"] = run.memory.requested.peak;
  json["peak_allocated_bytes"] = run.memory.allocated.peak;
  json["peak_active_bytes"] = run.memory.active.peak;
  json["peak_reserved_bytes"] = run.memory.reserved.peak;
  json["ladder"] = nlohmann::json(run.ladder);
  json["shares"] = explained(row);
  json["stranded_peak_bytes"] = row.knows_usable() ? Json(run.stranded_peak) : Json();
  json["utilization"] = utilization_of(run);
  json["exposed_copy_ms"] = in_milliseconds(run.engines.exposed_copies);
  json["exposed_exchange_ms"] = in_milliseconds(run.engines.exposed_exchanges);
  json["races"] = row.races.size();
  if (!row.races.empty()) json["race_messages"] = row.races;
  return json;
}

Json cache_of(const std::optional<TableCache>& cache) {
  if (!cache) return nullptr;
  return {{"load_factor", cache->load_factor}, {"policy", millrace::to_string(cache->policy)}};
}

}  // namespace

nlohmann::ordered_json to_document(const std::vector<PipelineRow>& rows,
                                   const PipelinesOptions& options) {
  Json workload = Json::parse(options.workload.to_json());
  workload["name"] = options.workload.name;
  workload["exchange_gb_per_s"] = options.link_gb_per_s;
  Json document{
      {"schema", "millrace.pipelines/1"},
      {"device",
       {{"name", options.device.name},
        {"title", options.device.title},
        {"memory_bytes", options.device.memory_bytes},
        {"modeled", true}}},
      {"options",
       {{"seed", options.seed}, {"seeds", options.seeds}, {"cache", cache_of(options.cache)}}},
      {"workload", std::move(workload)},
      {"rows", Json::array()}};
  for (const PipelineRow& row : rows) document["rows"].push_back(row_of(row, options.workload));
  return document;
}

}  // namespace millrace::cli
