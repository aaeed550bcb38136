#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "millrace/observe/replay.hpp"
#include "observe/explain/moment.hpp"
#include "test/observe/pool_program.hpp"
#include "test/observe/what_if_script.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

// Explanations of Millrace's own traces.

namespace {

using namespace millrace;
using namespace millrace::trace;
using millrace::test::MiB;
using millrace::test::PoolProgram;
using millrace::test::Script;

constexpr std::uint64_t kTraced = std::uint64_t{1} << 40;

std::uint64_t bytes_of_all(const MemoryMoment& moment) {
  std::uint64_t sum = 0;
  for (const MemoryShare& share : moment.shares) sum += share.bytes;
  return sum;
}

/// Records that the driver's pool reserves `bytes` bytes, without their addresses.
void reserve_pool(Script& script, std::uint64_t bytes) { script.writer->reserved(0, 0, bytes); }

}  // namespace

TEST_CASE("memory of the driver's pool adds up to the byte, at every moment") {
  CHECK(rc::check([] {
    const AllocationLog log = PoolProgram{*rc::gen::arbitrary<std::uint64_t>()}.log(120);
    const BlockTimes times{log};
    ExplainedStreams streams{log};
    Sites sites{log};
    std::vector<std::uint64_t> ends;
    const ExplainEnvironment context{log, times, streams, sites, ends};
    const auto devices = millrace::devices_of(log);
    if (devices.empty()) return;
    const Moments moments = find_moments(log, devices[0], times, streams, ends);
    std::uint64_t reserved = 0, peak = 0;
    for (std::size_t i = 0; i < devices[0].events.size(); ++i) {
      const LogEvent& event = log.events[devices[0].events[i]];
      if (event.kind == EventKind::segment_alloc) reserved += event.bytes;
      if (event.kind == EventKind::segment_free) reserved -= event.bytes;
      peak = std::max(peak, reserved);
      if (!moments.knows_segments) continue;
      const MemoryMoment moment = MomentView{context, devices[0], i}.explain({}, moments);
      RC_ASSERT(moment.reserved == reserved);
      RC_ASSERT(bytes_of_all(moment) == reserved);
      RC_ASSERT(moment.elsewhere == 0U);
    }
    const DeviceExplanation device = explain(log).devices.at(0);
    RC_ASSERT(device.peak.reserved.value_or(0) == peak);
    RC_ASSERT(replay(log, 0, {.policy = Policy::torch()}).recorded_peak.value_or(0) == peak);
  }));
}

TEST_CASE("bytes of the driver's pool that are in no block belong to no stream") {
  Script script;
  const std::uint32_t unused = script.stream("default stream");
  const std::uint32_t main = script.stream("stream 1"), copy = script.stream("stream 2");
  reserve_pool(script, 100 * MiB);
  static_cast<void>(
      script.writer->allocated({.stream = copy, .address = kTraced, .bytes = 60 * MiB}));
  reserve_pool(script, 200 * MiB);
  static_cast<void>(script.writer->allocated(
      {.stream = main, .address = kTraced + 64 * MiB, .bytes = 150 * MiB}));
  const Explanation explanation = explain(script.log());
  const MemoryMoment& peak = explanation.devices.at(0).peak;
  CHECK(peak.reserved == 300 * MiB);
  CHECK(peak.unplaced == 300 * MiB);
  CHECK(peak.elsewhere == 0);
  CHECK(peak.bytes(MemoryPart::live) == 210 * MiB);
  CHECK(peak.bytes(MemoryPart::driver) == 90 * MiB);
  for (const MemoryShare& share : peak.shares) {
    CHECK(share.stream != unused);
    CHECK((share.part == MemoryPart::driver) == (share.stream == MemoryShare::kNoStream));
  }
  CHECK_FALSE(peak.knows(MemoryPart::rounding));
  CHECK(peak.knows(MemoryPart::driver));
}

TEST_CASE("blocks beyond the recorded memory of a pool count as elsewhere") {
  Script script;
  const std::uint32_t main = script.stream("main");
  reserve_pool(script, 100 * MiB);
  for (const std::uint64_t at : {kTraced, kTraced + 100 * MiB})
    static_cast<void>(script.writer->allocated({.stream = main, .address = at, .bytes = 80 * MiB}));
  const Explanation explanation = explain(script.log());
  CHECK(explanation.devices.at(0).most_live == 160 * MiB);
  Script both;
  const std::uint32_t stream = both.stream("main");
  static_cast<void>(
      both.writer->allocated({.stream = stream, .address = kTraced, .bytes = 80 * MiB}));
  static_cast<void>(both.writer->allocated(
      {.stream = stream, .address = kTraced + 100 * MiB, .bytes = 80 * MiB}));
  reserve_pool(both, 100 * MiB);
  const MemoryMoment peak = explain(both.log()).devices.at(0).peak;
  CHECK(bytes_of_all(peak) == 100 * MiB);
  CHECK(peak.bytes(MemoryPart::live) == 100 * MiB);
  CHECK(peak.elsewhere == 60 * MiB);
}

TEST_CASE("a reset of the device ends all reserved memory and all waiting memory") {
  Script script;
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  reserve_pool(script, 100 * MiB);
  script.writer->reserved(0, kTraced, 50 * MiB);
  const std::uint64_t block =
      script.writer->allocated({.stream = main, .address = kTraced, .bytes = 50 * MiB});
  script.writer->freed(block, copy);
  script.writer->device_reset(0);
  script.writer->reserved(0, 2 * kTraced, 200 * MiB);
  static_cast<void>(
      script.writer->allocated({.stream = main, .address = 2 * kTraced, .bytes = 200 * MiB}));
  const AllocationLog log = script.log();
  const MemoryMoment peak = explain(log).devices.at(0).peak;
  CHECK(peak.reserved == 200 * MiB);
  CHECK(peak.unplaced == 0);
  CHECK(peak.bytes(MemoryPart::live) == 200 * MiB);
  CHECK(peak.bytes(MemoryPart::waiting) == 0);
}

TEST_CASE("a freed block waits only if another stream used it, until its memory is reused") {
  Script script;
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  script.writer->reserved(0, kTraced, 100 * MiB);
  const auto block = [&](std::uint64_t at, std::uint64_t bytes) {
    return script.writer->allocated(
        {.stream = main, .address = kTraced + at * MiB, .bytes = bytes * MiB});
  };
  const std::uint64_t own = block(0, 10), used = block(10, 20), again = block(30, 40);
  script.writer->used(used, copy);
  script.writer->used(again, copy);
  for (const std::uint64_t freed : {own, used, again}) script.writer->freed(freed, main);
  static_cast<void>(block(35, 5));  // main is ordered after the uses and reuses part of `again`
  script.writer->reserved(0, 2 * kTraced, 200 * MiB);
  static_cast<void>(
      script.writer->allocated({.stream = main, .address = 2 * kTraced, .bytes = 200 * MiB}));
  for (const std::uint64_t freed : {own, used, again}) script.writer->completed(freed);
  const AllocationLog log = script.log();
  const MemoryMoment peak = explain(log).devices.at(0).peak;
  CHECK(peak.reserved == 300 * MiB);
  CHECK(bytes_of_all(peak) == 300 * MiB);
  CHECK(peak.bytes(MemoryPart::live) == 205 * MiB);
  CHECK(peak.bytes(MemoryPart::waiting) == 20 * MiB);
  CHECK(peak.bytes(MemoryPart::hard) == 75 * MiB);
}
