#include "explain/json.hpp"

#include <algorithm>

#include "explain/sentences.hpp"
#include "explain/words.hpp"
#include "millrace/observe/report.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostShares = 2000;  // per moment; the rest is summed
constexpr std::size_t kMostFrames = 100;   // per stack

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json pool_of(const trace::TorchPool& pool) { return Json::array({pool.first, pool.second}); }

/** Makes the JSON document of one file. */
class FileJson {
 public:
  explicit FileJson(const ExplainedFile& file)
      : file_(file), streams_(stream_names(file.explanation, false)) {}

  Json run() {
    Json out{{"file", file_.file},
             {"format", trace::to_string(file_.log.format)},
             {"warnings", file_.log.warnings},
             {"devices", Json::array()}};
    for (const ExplainedDevice& device : file_.devices) out["devices"].push_back(device_of(device));
    for (const ExplainedFile& host : file_.host) out["pinned_host"] = FileJson{host}.host();
    return out;
  }

 private:
  Json event_of(const std::optional<std::size_t>& event) {
    if (!event) return nullptr;
    const trace::LogEvent& at = file_.log.events[*event];
    return {{"position", at.position}, {"time_us", at.time_us}};
  }

  Json stack_of(trace::StackTable::Id stack) {
    Json frames = Json::array();
    for (; stack != trace::StackTable::kNone && frames.size() < kMostFrames;
         stack = file_.log.stacks.outer(stack)) {
      const trace::StackFrame& frame = file_.log.stacks.at(file_.log.stacks.innermost(stack));
      frames.push_back({{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
    }
    return frames;
  }

  Json share_of(const MemoryShare& share) {
    const ExplainedSite& site = file_.explanation.sites[share.site];
    Json out{{"part", to_string(share.part)},
             {"stream", share.stream == MemoryShare::kNoStream ? Json(nullptr)
                                                               : Json(streams_[share.stream])},
             {"pool", pool_of(share.pool)},
             {"site", site.name},
             {"bytes", share.bytes},
             {"blocks", share.blocks},
             {"first", event_of(share.first)},
             {"last", event_of(share.last)},
             {"usable", usable(file_, share)}};
    if (share.until) out["until"] = event_of(share.until);
    if (is_free(share.part)) out["whole_segments"] = share.whole;
    if (site.stack != trace::StackTable::kNone) out["stack"] = stack_of(site.stack);
    return out;
  }

  Json host() {
    if (file_.devices.empty()) return nullptr;
    const DeviceExplanation& memory = file_.devices.front().memory;
    return {{"peak", moment_of(memory.peak)}, {"most_live_bytes", memory.most_live}};
  }

  static bool is_free(MemoryPart part) {
    return part == MemoryPart::stream || part == MemoryPart::pool || part == MemoryPart::hard ||
           part == MemoryPart::soft;
  }

  Json asker_of(const MemoryAsker& asker) {
    Json out{
        {"stream", asker.stream < streams_.size() ? Json(streams_[asker.stream]) : Json(nullptr)},
        {"pool", pool_of(asker.pool)},
        {"requested_bytes", asker.requests ? Json(asker.bytes) : Json(nullptr)}};
    if (asker.stack != trace::StackTable::kNone) out["stack"] = stack_of(asker.stack);
    return out;
  }

  Json moment_of(const MemoryMoment& moment) {
    Json parts = Json::object();
    for (std::size_t i = 0; i < kMemoryParts; ++i) {
      const auto part = static_cast<MemoryPart>(i);
      parts[to_string(part)] = moment.knows(part) ? Json(moment.bytes(part)) : Json(nullptr);
    }
    Json shares = Json::array();
    const std::size_t shown = std::min(moment.shares.size(), kMostShares);
    for (std::size_t i = 0; i < shown; ++i) shares.push_back(share_of(moment.shares[i]));
    std::uint64_t others = 0;
    for (std::size_t i = shown; i < moment.shares.size(); ++i) others += moment.shares[i].bytes;
    return {{"event", event_of(moment.event)},
            {"asker", asker_of(moment.asker)},
            {"reserved_bytes", or_null(moment.reserved)},
            {"parts", std::move(parts)},
            {"in_no_segment_bytes", moment.elsewhere},
            {"in_driver_pool_bytes", moment.unplaced},
            {"shares", std::move(shares)},
            {"further_shares", moment.shares.size() - shown},
            {"further_shares_bytes", others}};
  }

  Json range_of(const std::optional<FreeRange>& range) {
    if (!range) return nullptr;
    return {{"bytes", range->bytes},
            {"stream", streams_[range->stream]},
            {"pool", pool_of(range->pool)},
            {"freed", event_of(range->freed)}};
  }

  Json failure_of(const DeviceExplanation& device) {
    if (!device.failure) return nullptr;
    const FailedRequest& failed = *device.failure;
    return {{"failures", device.failures},
            {"event", event_of(failed.event)},
            {"requested_bytes", failed.bytes},
            {"device_free_bytes", or_null(failed.device_free)},
            {"device_free_is_at_most", failed.device_is_whole},
            {"reason", to_string(failed.reason)},
            {"sentences", failure_sentences(file_, device)},
            {"would_fit_bytes", or_null(failed.would_fit)},
            {"largest_own", range_of(failed.own)},
            {"largest_of_other_stream", range_of(failed.other)},
            {"largest_of_other_pool", range_of(failed.pool)},
            {"largest_waiting", range_of(failed.waiting)},
            {"memory", moment_of(failed.memory)}};
  }

  static Json rows_of(const ExplainedDevice& device) {
    Json rows = Json::array();
    for (const WhatIfRow& row : device.rows) {
      Json out{{"allocator", row.allocator},
               {"change", to_string(row.change)},
               {"reserved_bytes", or_null(row.reserved)},
               {"waits_inserted", row.reserved ? Json(row.waits) : Json(nullptr)}};
      if (row.serves_failed) out["serves_failed_request"] = *row.serves_failed;
      if (!row.failure.empty()) out["error"] = "out of memory: " + row.failure;
      rows.push_back(std::move(out));
    }
    return rows;
  }

  static Json memory_of(const ReplayMemory& memory) {
    if (memory.bytes == 0) return {{"bytes", nullptr}, {"from", nullptr}};
    return {{"bytes", memory.bytes}, {"from", to_string(memory.from)}};
  }

  static Json ladder_of(const ExplainedDevice& device) {
    if (!device.ladder) return nullptr;
    Json levels(nlohmann::json(device.ladder->ladder));
    return {{"allocator", device.ladder->of},
            {"is_recorded", device.ladder->is_recorded},
            {"levels", std::move(levels)}};
  }

  static Json advice_of(const ExplainedDevice& device) {
    Json list = Json::array();
    for (const Advice& advice : device.advice) {
      list.push_back({{"change", advice.change},
                      {"cost", advice.cost},
                      {"row", advice.row.empty() ? Json(nullptr) : Json(advice.row)},
                      {"saved_bytes", advice.saves},
                      {"at_most", advice.at_most},
                      {"serves_failed_request", advice.serves}});
    }
    return list;
  }

  Json device_of(const ExplainedDevice& device) {
    return {{"device", device.memory.device},
            {"peak", moment_of(device.memory.peak)},
            {"most_live_bytes", device.memory.most_live},
            {"packed_bytes", or_null(device.packed)},
            {"out_of_memory", failure_of(device.memory)},
            {"ladder", ladder_of(device)},
            {"what_if", rows_of(device)},
            {"what_if_device", memory_of(device.limit)},
            {"notes", device.notes},
            {"left_out", device.left_out},
            {"compared_with_bytes", or_null(baseline(file_, device))},
            {"advice", advice_of(device)}};
  }

  const ExplainedFile& file_;
  const std::vector<std::string> streams_;
};

Json changes_of(const std::vector<DeviceDifference>& changes) {
  Json devices = Json::array();
  for (const DeviceDifference& device : changes) {
    Json rows = Json::array();
    for (const MemoryDifference& row : device.rows) {
      rows.push_back({{"part", to_string(row.part)},
                      {"stream", row.stream},
                      {"site", row.site},
                      {"first_bytes", row.first},
                      {"second_bytes", row.second},
                      {"change_bytes", row.change()},
                      {"first_blocks", row.first_blocks},
                      {"second_blocks", row.second_blocks}});
    }
    devices.push_back({{"device", device.device},
                       {"of", device.of_reserved ? "reserved" : "live"},
                       {"first_bytes", device.first},
                       {"second_bytes", device.second},
                       {"rows", std::move(rows)}});
  }
  return devices;
}

}  // namespace

nlohmann::ordered_json to_document(const ExplainedFile& file, const ExplainedFile* against,
                                   const std::vector<DeviceDifference>& changes) {
  Json out{{"schema", "millrace.explain/1"}, {"files", Json::array({FileJson{file}.run()})}};
  if (against != nullptr) {
    out["files"].push_back(FileJson{*against}.run());
    out["changes"] = changes_of(changes);
  }
  return out;
}

}  // namespace millrace::cli
