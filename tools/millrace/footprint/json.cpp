#include "footprint/json.hpp"

#include <nlohmann/json.hpp>

#include "cli/shares.hpp"
#include "footprint/advice.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json calls_of(const FootprintFigures& figures) {
  Json calls = Json::object();
  for (std::size_t i = 0; i < figures.calls.size(); ++i) {
    if (figures.calls[i] > 0) calls[millrace::to_string(static_cast<Call>(i))] = figures.calls[i];
  }
  calls["all"] = figures.all_calls();
  return calls;
}

Json ladder_of(const FootprintFigures& f) {
  return {{"l0", f.requested},
          {"l1", f.rounded},
          {"l2", f.ordered},
          {"l3", f.packed},
          {"reserved", f.reserved},
          {"steps",
           {{"rounding", f.rounding()},
            {"streams", f.streams()},
            {"packing", f.packing()},
            {"policy", f.policy()}}}};
}

Json times_of(const FootprintFigures& f) {
  return {{"p50", f.step_p50 / 1e3}, {"p90", f.step_p90 / 1e3}, {"mean", f.step_mean / 1e3}};
}

Json seeds_of(const FootprintRow& row, std::uint64_t first) {
  Json seeds = Json::array();
  for (std::size_t i = 0; i < row.by_seed.size(); ++i) {
    const FootprintFigures& figures = row.by_seed[i];
    seeds.push_back({{"seed", first + i},
                     {"peak_reserved_bytes", figures.reserved},
                     {"step_time_us", times_of(figures)},
                     {"h2d_hidden", figures.hidden}});
  }
  return seeds;
}

Json explained(const FootprintRow& row) {
  return shares_of(
      row.example.ladder, [&](StreamId stream) { return row.stream_name(stream); },
      row.knows_usable());
}

/** Whether each figure of a run is measured or modeled. */
Json basis_of(const FootprintRow& row) {
  const char* const sizes = row.modeled_sizes() ? "modeled" : "measured";
  const char* const times = row.example.modeled ? "modeled" : "measured";
  return {{"bytes", sizes},       {"external_fragmentation", sizes},
          {"utilization", sizes}, {"step_time_us", times},
          {"h2d_hidden", times},  {"device_calls", "measured"}};
}

/** The spread over the seeds: of a row's reserved bytes, and of its saving on the same sizes. */
Json spread_of(const FootprintRow& row, const FootprintRow& usual) {
  Json spread{{"peak_reserved_bytes", to_json(row.reserved())}};
  if (&row == &usual) return spread;
  spread["beside"] = {{"allocator", usual.allocator},
                      {"strategy", millrace::to_string(usual.method)}};
  spread["saving_bytes"] = to_json(row.saving(usual));
  spread["longer_step_us"] = to_json(row.longer_step(usual), 1e-3);
  return spread;
}

Json run_of(const FootprintRow& row, const FootprintTable& table, const FootprintOptions& options) {
  Json run{{"allocator", row.allocator}, {"strategy", millrace::to_string(row.method)}};
  if (!row.ok()) {
    run["error"] = row.failure;
    return run;
  }
  const FootprintFigures& f = row.figures;
  const experiment::LoopReport& loop = row.example.loop;
  run["figures"] = basis_of(row);
  run["peak_reserved_bytes"] = f.reserved;
  run["peak_active_bytes"] = f.active;
  run["peak_allocated_bytes"] = f.allocated;
  run["peak_requested_bytes"] = f.requested;
  run["ladder"] = ladder_of(f);
  run["shares"] = explained(row);
  run["stranded_peak_bytes"] = row.knows_usable() ? Json(f.stranded) : Json();
  run["external_fragmentation"] = row.knows_usable() ? Json(f.fragmentation) : Json();
  run["utilization"] = f.utilization();
  run["step_time_us"] = times_of(f);
  run["h2d_hidden"] = f.hidden;
  run["device_calls"] = calls_of(f);
  run["races"] = row.races ? Json(row.races->size()) : Json();
  if (row.races && !row.races->empty()) run["race_messages"] = *row.races;
  run["batches"] = {{"at_rest", loop.batches_at_rest}, {"at_peak", loop.batches_at_peak}};
  run["spread"] = spread_of(row, *table.usual());
  run["seeds"] = seeds_of(row, options.seed);
  return run;
}

Json runs_of(const FootprintTable& table, const FootprintOptions& options) {
  Json runs = Json::array();
  for (const FootprintRow& row : table.rows) runs.push_back(run_of(row, table, options));
  return runs;
}

Json workload_of(const experiment::Workload& workload) {
  Json json = Json::parse(workload.to_json());
  json["name"] = workload.name;
  json["exchange_gb_per_s"] = workload.exchange_gb_per_s.value_or(experiment::kExchangeGbPerS);
  json["mean_batch_bytes"] = workload.mean_batch_bytes();
  return json;
}

Json published_for(const experiment::Workload& workload) {
  if (!has_published_figures(workload)) return nullptr;
  return {{"source", "https://github.com/meta-pytorch/torchrec/pull/3510"},
          {"side_stream_reserved_bytes", 79'700'000'000},
          {"in_place_reserved_bytes", 74'000'000'000},
          {"input_bytes", 1'000'000'000}};
}

}  // namespace

nlohmann::ordered_json to_document(const std::vector<FootprintTable>& tables,
                                   const FootprintOptions& options) {
  Json document{{"schema", "millrace.footprint/1"},
                {"device",
                 {{"name", options.device.name},
                  {"title", options.device.title},
                  {"memory_bytes", options.device.memory_bytes},
                  {"modeled", options.device.modeled}}},
                {"options",
                 {{"waits", to_string(options.waits)},
                  {"seed", options.seed},
                  {"seeds", options.seeds},
                  {"warm_up_steps", experiment::LoopOptions{}.warm_up}}},
                {"published", published_for(tables.front().workload)},
                {"workload", workload_of(tables.front().workload)},
                {"runs", runs_of(tables.front(), options)}};
  for (std::size_t i = 1; i < tables.size(); ++i) {
    document["also"].push_back(
        {{"workload", workload_of(tables[i].workload)}, {"runs", runs_of(tables[i], options)}});
  }
  return document;
}

}  // namespace millrace::cli
