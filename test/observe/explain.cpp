#include "millrace/observe/explain.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "millrace/observe/explain_difference.hpp"
#include "observe/explain/memory_map.hpp"
#include "test/observe/torch_program.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"
#include "test/support/sizes.hpp"

namespace {

using namespace millrace;
using millrace::test::MiB;
using namespace millrace::trace;
using millrace::test::TorchProgram;
using nlohmann::json;

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

AllocationLog read(const json& snapshot) {
  return parse_trace(millrace::test::to_pickle(snapshot), "file");
}

json event(const char* action, std::uint64_t address, std::uint64_t bytes,
           std::int64_t stream = 0) {
  return {{"action", action}, {"addr", address}, {"size", bytes}, {"stream", stream}};
}

/// A snapshot of these events, with rising times, and of the segments at the end.
json snapshot_of(std::vector<json> events, json segments = json::array()) {
  for (std::size_t i = 0; i < events.size(); ++i) events[i]["time_us"] = i;
  return {{"segments", std::move(segments)}, {"device_traces", json::array({events})}};
}

/// A segment of free memory.
json segment_of(std::uint64_t address, std::uint64_t bytes, std::int64_t stream = 0) {
  return {
      {"device", 0},
      {"address", address},
      {"total_size", bytes},
      {"stream", stream},
      {"segment_type", bytes > 2 * MiB ? "large" : "small"},
      {"blocks", json::array({{{"address", address}, {"size", bytes}, {"state", "inactive"}}})}};
}

std::uint64_t sum_of(const MemoryMoment& moment) {
  std::uint64_t sum = 0;
  for (const MemoryShare& share : moment.shares) sum += share.bytes;
  return sum;
}

const MemoryShare& only(const MemoryMoment& moment, MemoryPart part) {
  const auto share = std::ranges::find(moment.shares, part, &MemoryShare::part);
  REQUIRE(share != moment.shares.end());
  CHECK(std::ranges::count(moment.shares, part, &MemoryShare::part) == 1);
  return *share;
}

/// Random programs on several devices of one process. The trace of each one lacks its first part.
json devices_of_programs(std::uint64_t seed, std::size_t devices) {
  json all{{"segments", json::array()}, {"device_traces", json::array()}};
  for (std::size_t device = 0; device < devices; ++device) {
    TorchProgram program{seed * 7 + device, {}};
    program.run(10 + 20 * device);
    if ((seed + device) % 2 == 0) program.forget();
    program.run(40);
    const json one = program.snapshot((seed & 4) != 0);
    all["allocator_settings"] = one["allocator_settings"];
    all["device_traces"].push_back(one["device_traces"][0]);
    for (json segment : one["segments"]) {
      segment["device"] = device;
      all["segments"].push_back(segment);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("the parts of each device add up to its reserved bytes at the peak") {
  CHECK(rc::check([] {
    const auto log = read(devices_of_programs(*rc::gen::arbitrary<std::uint32_t>(), 3));
    const Explanation explanation = explain(log);
    RC_ASSERT(explanation.devices.size() == 3U);
    for (const DeviceExplanation& device : explanation.devices) {
      RC_ASSERT(device.peak.reserved.has_value());
      RC_ASSERT(sum_of(device.peak) == *device.peak.reserved);
      RC_ASSERT(device.peak.elsewhere == 0U);
      RC_ASSERT(device.peak.bytes(MemoryPart::live) <= device.most_live);
    }
  }));
}

TEST_CASE("moving forward from the start of a trace ends in the snapshot, block by block") {
  CHECK(rc::check([] {
    TorchProgram::Options options;
    if (*rc::gen::arbitrary<bool>()) options.settings.max_split_size = 8 * MiB;
    if (*rc::gen::arbitrary<bool>()) options.settings.roundup_power2_divisions.fill(4);
    TorchProgram program{*rc::gen::arbitrary<std::uint64_t>(), options};
    program.run(*rc::gen::inRange<std::size_t>(0, 60));
    program.forget();
    program.run(80);
    const auto log = read(program.snapshot(true));
    ExplainedStreams streams{log};
    std::vector<std::uint64_t> ends;
    const auto devices = millrace::devices_of(log);
    if (devices.empty()) return;
    const BlockTimes times{log};
    MemoryMap map{log, devices[0], times, streams, ends};
    for (const std::uint32_t i : devices[0].events) map.apply(log.events[i]);
    std::uint64_t reserved = 0;
    for (const TorchSegment& segment : program.segments()) {
      reserved += segment.bytes;
      RC_ASSERT(map.segments().contains(segment.address));
      const MemoryMap::Segment& ours = map.segments().at(segment.address);
      RC_ASSERT(ours.end == segment.address + segment.bytes);
      RC_ASSERT(!ours.pool_known || ours.pool == segment.pool);
      for (const TorchBlock& block : segment.blocks) {
        const auto held = map.blocks().find(block.address);
        RC_ASSERT((held != map.blocks().end()) == (block.state != BlockState::inactive));
        if (held == map.blocks().end()) continue;
        RC_ASSERT(held->second.end == block.address + block.bytes);
        RC_ASSERT(held->second.waits == (block.state == BlockState::pending_free));
      }
    }
    RC_ASSERT(map.reserved() == reserved);
  }));
}

TEST_CASE("the parts add up even if a trace contradicts itself") {
  CHECK(rc::check([] {
    std::vector<json> events;
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 8), rc::gen::inRange(0, 40), rc::gen::inRange(1, 30),
                       rc::gen::inRange(0, 3)));
    static constexpr const char* kActions[] = {
        "alloc",       "free_requested", "free_completed", "segment_alloc",
        "segment_map", "segment_unmap",  "segment_free",   "oom"};
    for (const auto& [action, place, size, stream] : steps) {
      const bool segment = action >= 3 && action <= 6;
      const std::uint64_t unit = segment ? 2 * MiB : MiB / 2;
      events.push_back(event(kActions[action], kBase + static_cast<std::uint64_t>(place) * unit,
                             static_cast<std::uint64_t>(size) * unit / 2, stream));
    }
    const auto log = read(snapshot_of(events, json::array({segment_of(kBase, 20 * MiB)})));
    for (const DeviceExplanation& device : explain(log).devices) {
      RC_ASSERT(sum_of(device.peak) == device.peak.reserved.value());
      if (device.failure) {
        RC_ASSERT(sum_of(device.failure->memory) == device.failure->memory.reserved.value());
      }
    }
  }));
}

TEST_CASE("the changes between two logs add up to the difference of their peaks") {
  CHECK(rc::check([] {
    const auto first = explain(read(devices_of_programs(*rc::gen::arbitrary<std::uint32_t>(), 2)));
    const auto second = explain(read(devices_of_programs(*rc::gen::arbitrary<std::uint32_t>(), 3)));
    const auto devices = difference(first, second);
    RC_ASSERT(devices.size() == 3U);
    for (const DeviceDifference& device : devices) {
      std::int64_t sum = 0;
      for (const MemoryDifference& row : device.rows) sum += row.change();
      RC_ASSERT(device.second - device.first == static_cast<std::uint64_t>(sum));
      RC_ASSERT(device.second == second.devices[device.device].peak.reserved);
    }
    RC_ASSERT(devices[0].first == first.devices[0].peak.reserved);
    RC_ASSERT(devices[2].first == 0U);
    for (const DeviceDifference& device : difference(first, first)) RC_ASSERT(device.rows.empty());
  }));
}

TEST_CASE("free memory of a stream other than the growing one is stream fragmentation") {
  const std::uint64_t side = kBase + 1024 * MiB;
  const auto log = read(snapshot_of(
      {event("segment_alloc", side, 64 * MiB, 5), event("alloc", side, 64 * MiB, 5),
       event("free_requested", side, 64 * MiB, 5), event("free_completed", side, 64 * MiB, 5),
       event("segment_alloc", kBase, 40 * MiB), event("alloc", kBase, 40 * MiB)},
      json::array({segment_of(kBase, 40 * MiB), segment_of(side, 64 * MiB, 5)})));
  const Explanation explanation = explain(log);
  const MemoryMoment& peak = explanation.devices.at(0).peak;
  CHECK(peak.event == 5U);
  CHECK(peak.asker.requests);
  CHECK(peak.asker.bytes == 40 * MiB);
  CHECK(peak.reserved == 104 * MiB);
  const MemoryShare& share = only(peak, MemoryPart::stream);
  CHECK(share.bytes == 64 * MiB);
  CHECK(share.whole);
  CHECK(share.last == 3U);
  CHECK(explanation.streams[share.stream].handle == 5);
  CHECK(explanation.sites[share.site].name == "blocks of 32 to 64 MiB");
}

TEST_CASE("a free range in a used segment is held by the block that is freed last") {
  const auto log = read(snapshot_of(
      {event("segment_alloc", kBase, 20 * MiB), event("alloc", kBase, 2 * MiB),
       event("alloc", kBase + 2 * MiB, 4 * MiB), event("alloc", kBase + 6 * MiB, 8 * MiB),
       event("free_requested", kBase + 2 * MiB, 4 * MiB),
       event("free_completed", kBase + 2 * MiB, 4 * MiB),
       event("segment_alloc", kBase + 64 * MiB, 30 * MiB),
       event("alloc", kBase + 64 * MiB, 30 * MiB),
       event("free_requested", kBase + 6 * MiB, 8 * MiB),
       event("free_completed", kBase + 6 * MiB, 8 * MiB), event("free_requested", kBase, 2 * MiB),
       event("free_completed", kBase, 2 * MiB)}));
  const Explanation explanation = explain(log);
  const MemoryMoment& peak = explanation.devices.at(0).peak;
  CHECK(peak.bytes(MemoryPart::live) == 40 * MiB);
  const MemoryShare& share = only(peak, MemoryPart::hard);
  CHECK(share.bytes == 10 * MiB);
  CHECK(share.blocks == 2);
  CHECK(share.first == 0U);  // the end of the segment was never used
  CHECK(share.last == 5U);
  CHECK(share.until == 11U);
  CHECK(explanation.sites[share.site].name == "blocks of 1 to 2 MiB");
}

TEST_CASE("whole free pages of an expandable segment are soft, and parts of used ones hard") {
  const auto log = read(
      snapshot_of({event("segment_map", kBase, 60 * MiB), event("alloc", kBase, 5 * MiB),
                   event("alloc", kBase + 5 * MiB, 50 * MiB), event("alloc", kBase + 55 * MiB, MiB),
                   event("free_requested", kBase + 5 * MiB, 50 * MiB),
                   event("free_completed", kBase + 5 * MiB, 50 * MiB),
                   event("segment_map", kBase + 60 * MiB, 20 * MiB),
                   event("alloc", kBase + 60 * MiB, 20 * MiB)}));
  const MemoryMoment peak = explain(log).devices.at(0).peak;
  CHECK(peak.bytes(MemoryPart::live) == 26 * MiB);
  CHECK(peak.bytes(MemoryPart::soft) == 20 * MiB);
  CHECK(peak.bytes(MemoryPart::hard) == 34 * MiB);
}

TEST_CASE("memory that waits for other streams, and rounding, are separate parts") {
  const auto log = read(snapshot_of(
      {event("segment_alloc", kBase, 20 * MiB), event("alloc", kBase, 4 * MiB),
       event("alloc", kBase + 4 * MiB, 2 * MiB - 100), event("free_requested", kBase, 4 * MiB),
       event("segment_alloc", kBase + 64 * MiB, 32 * MiB),
       event("alloc", kBase + 64 * MiB, 32 * MiB - MiB / 2),
       event("free_completed", kBase, 4 * MiB)}));
  const MemoryMoment peak = explain(log).devices.at(0).peak;
  const MemoryShare& waiting = only(peak, MemoryPart::waiting);
  CHECK(waiting.bytes == 4 * MiB);
  CHECK(waiting.first == 3U);
  CHECK(waiting.until == 6U);
  CHECK(peak.bytes(MemoryPart::rounding) == 100);
  CHECK(peak.bytes(MemoryPart::rest) == MiB / 2);
}

TEST_CASE("free memory of a private pool is a separate part") {
  json pool = event("segment_alloc", kBase, 20 * MiB);
  pool["pool_id"] = {0, 1};
  json block = event("alloc", kBase, 20 * MiB);
  block["pool_id"] = {0, 1};
  json request = event("free_requested", kBase, 20 * MiB),
       done = event("free_completed", kBase, 20 * MiB);
  const auto log = read(
      snapshot_of({pool, block, request, done, event("segment_alloc", kBase + 64 * MiB, 30 * MiB),
                   event("alloc", kBase + 64 * MiB, 30 * MiB)}));
  const MemoryMoment peak = explain(log).devices.at(0).peak;
  CHECK(only(peak, MemoryPart::pool).bytes == 20 * MiB);
  CHECK(only(peak, MemoryPart::pool).pool == TorchPool{0, 1});
}

TEST_CASE("a log without segments explains live bytes, and reserved bytes are unknown") {
  const auto log = parse_trace(
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,00:00:00:000001,allocate,0x7f00,4096,0x10\n"
      "1,00:00:00:000002,allocate,0xff00,1000,0x20\n"
      "1,00:00:00:000003,free,0x7f00,4096,0x10\n",
      "file");
  const DeviceExplanation device = explain(log).devices.at(0);
  CHECK_FALSE(device.peak.reserved.has_value());
  CHECK(device.most_live == 5096);
  CHECK(sum_of(device.peak) == 5096);
  CHECK(device.peak.bytes(MemoryPart::live) == 5096);
}

TEST_CASE("a log without addresses explains the most live bytes at once") {
  const auto log = parse_trace("id,lower,upper,size\n0,0,4,3000\n1,1,3,5000\n2,3,6,1000\n", "file");
  const DeviceExplanation device = explain(log).devices.at(0);
  CHECK(device.most_live == 8000);
  CHECK(sum_of(device.peak) == 8000);
}

TEST_CASE("a site is the program's own line, with the program's label") {
  const json frames = json::array(
      {{{"filename", "/lib/site-packages/torch/nn/linear.py"}, {"line", 9}, {"name", "forward"}},
       {{"filename", "/home/me/model.py"}, {"line", 12}, {"name", "block"}},
       {{"filename", "/home/me/train.py"}, {"line", 3}, {"name", "main"}}});
  json alloc = event("alloc", kBase, 20 * MiB);
  alloc["frames"] = frames;
  json annotate = event("annotate", kBase, 0);
  annotate["user_metadata"] = "weights";
  json second = event("alloc", kBase + 64 * MiB, 20 * MiB);
  second["frames"] = "none";  // PyTorch does not write this
  const auto log = read(snapshot_of({event("segment_alloc", kBase, 20 * MiB), alloc, annotate,
                                     event("segment_alloc", kBase + 64 * MiB, 20 * MiB), second}));
  CHECK(std::ranges::count(log.warnings,
                           "a stack is not as PyTorch writes it and is left out (frames)") == 1);
  CHECK(log.stacks.frames_of(log.blocks[0].stack).size() == 3);
  const Explanation explanation = explain(log);
  std::vector<std::string> names;
  for (const ExplainedSite& site : explanation.sites)
    names.push_back(site.name + "|" + site.origin);
  CHECK(names == std::vector<std::string>{"weights, block (model.py:12)|weights, block (model.py)",
                                          "blocks of 16 to 32 MiB|blocks of 16 to 32 MiB"});
}

TEST_CASE("pinned host memory of a snapshot has a log of its own") {
  json snapshot =
      snapshot_of({event("segment_alloc", kBase, 20 * MiB), event("alloc", kBase, 20 * MiB)});
  const auto host = [](std::uint64_t address, std::uint64_t bytes, const char* state) {
    json segment = segment_of(address, bytes);
    segment["device"] = -1;
    segment["blocks"][0]["state"] = state;
    segment["blocks"][0]["requested_size"] = bytes;
    return segment;
  };
  snapshot["host_segments"] =
      json::array({host(4096, 128, "active_allocated"), host(8192, 4096, "active_pending_free"),
                   host(65536, 65536, "inactive")});
  json freed = event("free_requested", 8192, 4096);
  freed["time_us"] = 1;
  snapshot["host_traces"] = json::array({freed});
  const auto log = read(snapshot);
  REQUIRE(log.host.size() == 1);
  CHECK(explain(log).devices.size() == 1);
  const MemoryMoment peak = explain(log.host[0]).devices.at(0).peak;
  CHECK(peak.reserved == 128 + 4096 + 65536);
  CHECK(peak.bytes(MemoryPart::live) == 4096 + 128);
  CHECK(peak.bytes(MemoryPart::soft) == 65536);
  CHECK(sum_of(peak) == *peak.reserved);
}

TEST_CASE("a failed request names the memory that would have served it") {
  const std::uint64_t side = kBase + 1024 * MiB;
  const auto reason = [&](std::vector<json> events, std::uint64_t asked,
                          std::uint64_t device_free) {
    json failed{{"action", "oom"}, {"device_free", device_free}, {"size", asked}, {"stream", 0}};
    events.push_back(failed);
    const auto log = read(snapshot_of(std::move(events)));
    return explain(log).devices.at(0).failure.value();
  };
  const std::vector<json> used{event("segment_alloc", kBase, 40 * MiB),
                               event("alloc", kBase, 40 * MiB)};
  CHECK(reason(used, 100 * MiB, 30 * MiB).reason == FailureReason::beyond_device);
  CHECK(reason(used, 60 * MiB, 30 * MiB).reason == FailureReason::live);
  CHECK(reason(used, 60 * MiB, 30 * MiB).would_fit == 30 * MiB);

  std::vector<json> freed = used;
  freed.push_back(event("segment_alloc", side, 2 * MiB));
  freed.push_back(event("alloc", side, MiB));
  freed.push_back(event("free_requested", side, MiB));
  freed.push_back(event("free_completed", side, MiB));  // so that the trace has completions
  freed.push_back(event("free_requested", kBase, 40 * MiB));
  CHECK(reason(freed, 40 * MiB, 0).reason == FailureReason::waiting);
  freed.push_back(event("free_completed", kBase, 40 * MiB));
  CHECK(reason(freed, 40 * MiB, 0).reason == FailureReason::unused);

  std::vector<json> other = used;
  other.push_back(event("segment_alloc", side, 64 * MiB, 5));
  other.push_back(event("alloc", side, 64 * MiB, 5));
  other.push_back(event("free_requested", side, 64 * MiB, 5));
  other.push_back(event("free_completed", side, 64 * MiB, 5));
  const FailedRequest failed = reason(other, 50 * MiB, 0);
  CHECK(failed.reason == FailureReason::stream);
  CHECK(failed.other->bytes == 64 * MiB);
  CHECK(failed.other->freed == 5U);
  CHECK(failed.would_fit == 0U);

  const std::vector<json> holes{
      event("segment_alloc", kBase, 60 * MiB), event("alloc", kBase, 20 * MiB),
      event("alloc", kBase + 20 * MiB, 20 * MiB), event("free_requested", kBase, 20 * MiB),
      event("free_completed", kBase, 20 * MiB)};
  CHECK(reason(holes, 30 * MiB, 0).reason == FailureReason::hard);
  CHECK(reason(holes, 30 * MiB, 0).would_fit == 20 * MiB);
}
