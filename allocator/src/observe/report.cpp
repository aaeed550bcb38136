#include "millrace/observe/report.hpp"

#include <nlohmann/json.hpp>

namespace millrace {

using nlohmann::json;

void to_json(json& out, const Gauge& gauge) {
  out = {{"current", gauge.current}, {"peak", gauge.peak}};
}

void to_json(json& out, const MemoryGauges& bytes) {
  out = {{"requested", bytes.requested},
         {"allocated", bytes.allocated},
         {"active", bytes.active},
         {"reserved", bytes.reserved},
         {"cached", bytes.cached}};
}

void to_json(json& out, const MemoryCounters& counts) {
  out = {{"allocations", counts.allocations},
         {"frees", counts.frees},
         {"served_own", counts.served_own},
         {"served_ordered", counts.served_ordered},
         {"served_waited", counts.served_waited},
         {"served_grown", counts.served_grown},
         {"bytes_moved", counts.bytes_moved},
         {"waits_inserted", counts.waits_inserted},
         {"segments_acquired", counts.segments_acquired},
         {"segments_released", counts.segments_released},
         {"retries", counts.retries},
         {"out_of_memory", counts.out_of_memory}};
}

void to_json(json& out, const MemoryStatistics& statistics) {
  json streams = json::array();
  for (const ShareStatistics& share : statistics.streams) {
    streams.push_back({{"name", share.name},
                       {"allocated_bytes", share.allocated},
                       {"cached_bytes", share.cached}});
  }
  json tags = json::array();
  for (const ShareStatistics& share : statistics.tags) {
    tags.push_back({{"name", share.name}, {"allocated_bytes", share.allocated}});
  }
  out = {{"bytes", statistics.bytes},
         {"counts", statistics.counts},
         {"segments", statistics.segments},
         {"live_blocks", statistics.live_blocks},
         {"free_blocks", statistics.free_blocks},
         {"utilization", statistics.utilization()},
         {"streams", std::move(streams)},
         {"tags", std::move(tags)}};
}

void to_json(json& out, const UsableBytes& usable) {
  out = {{"total_bytes", usable.total},
         {"largest_bytes", usable.largest},
         {"stranded_bytes", usable.stranded},
         {"external_fragmentation", usable.fragmentation()}};
}

void to_json(json& out, const MemoryPicture& picture) {
  json stranded = json::array();
  for (const auto& [stream, bytes, usable] : picture.stranded) {
    stranded.push_back({{"stream", stream}, {"bytes", bytes}, {"usable", usable}});
  }
  out = {{"requested_bytes", picture.requested},
         {"rounded_bytes", picture.rounded},
         {"stream", picture.stream},
         {"limit_bytes", picture.limit == 0 ? json{} : json(picture.limit)},
         {"reserved_bytes", picture.reserved},
         {"allocated_bytes", picture.allocated},
         {"pending_bytes", picture.pending},
         {"usable_bytes", picture.usable},
         {"largest_usable_bytes", picture.largest_usable},
         {"stranded", std::move(stranded)},
         {"device_free_bytes", picture.device_free},
         {"device_total_bytes", picture.device_total},
         {"held_by_others_bytes", picture.held_by_others}};
}

void to_json(json& out, const SampledSeries& series) {
  out = {{"last", series.last()}, {"peak", series.peak()}, {"mean", series.mean()}};
}

void to_json(json& out, const FootprintSampler& footprint) {
  out = {{"requested_bytes", footprint.requested()},
         {"allocated_bytes", footprint.allocated()},
         {"active_bytes", footprint.active()},
         {"reserved_bytes", footprint.reserved()},
         {"usable_bytes", footprint.usable()},
         {"stranded_bytes", footprint.stranded()},
         {"external_fragmentation", footprint.fragmentation()}};
}

void to_json(json& out, const Ladder& ladder) {
  out = {{"l0", ladder.requested},
         {"l1", ladder.rounded},
         {"l2", ladder.ordered},
         {"l3", ladder.packed},
         {"reserved", ladder.reserved}};
}

namespace {

json shares(const std::vector<LadderShare>& all, const StreamNames& name) {
  json out = json::array();
  for (const LadderShare& share : all) {
    json& entry = out.emplace_back(
        json{{"tag", share.tag}, {"stream", name(share.stream)}, {"bytes", share.bytes}});
    if (share.blocks > 0) {
      entry["blocks"] = share.blocks;
      entry["requested_bytes"] = share.requested;
    }
    if (share.waits_for.valid()) entry["waits_for"] = name(share.waits_for);
  }
  return out;
}

}  // namespace

json explain(const Ladder& ladder, const StreamNames& name) {
  json out = ladder;
  out["steps"] = {{"rounding", ladder.rounding()},
                  {"streams", ladder.streams()},
                  {"packing", ladder.packing()},
                  {"policy", ladder.policy()}};
  out["live_at_peak"] = shares(ladder.at_peak, name);
  out["heaviest_conflict"] = shares(ladder.heaviest, name);
  out["idle_at_peak"] = shares(ladder.idle, name);
  return out;
}

std::map<std::string, std::uint64_t> torch_memory_stats(const MemoryStatistics& statistics) {
  const MemoryGauges& bytes = statistics.bytes;
  const MemoryCounters& counts = statistics.counts;
  std::map<std::string, std::uint64_t> stats{
      {"allocation.all.current", statistics.live_blocks},
      {"allocation.all.allocated", counts.allocations},
      {"allocation.all.freed", counts.frees},
      {"segment.all.current", statistics.segments},
      {"segment.all.allocated", counts.segments_acquired},
      {"segment.all.freed", counts.segments_released},
      {"num_alloc_retries", counts.retries},
      {"num_ooms", counts.out_of_memory},
      {"num_device_alloc", counts.segments_acquired},
      {"num_device_free", counts.segments_released},
  };
  const auto add = [&](const std::string& key, const Gauge& gauge) {
    stats[key + ".all.current"] = gauge.current;
    stats[key + ".all.peak"] = gauge.peak;
  };
  add("requested_bytes", bytes.requested);
  add("allocated_bytes", bytes.allocated);
  add("active_bytes", bytes.active);
  add("reserved_bytes", bytes.reserved);
  return stats;
}

}  // namespace millrace
