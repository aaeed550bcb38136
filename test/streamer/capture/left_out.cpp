#include <fmt/format.h>

#include <set>

#include "millrace/device/fault.hpp"
#include "test/streamer/capture/capture_rig.hpp"
#include "test/streamer/capture/observer_waits.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

CaptureCase left_out_case(CaptureMode mode, GatherOn gather_on, bool cached) {
  return {.options = {.mode = mode,
                      .content = RowContent::weights_and_state,
                      .slots = mode == CaptureMode::ring_kernel ? 4U : 2U,  // more than 2 buffers
                      .slot_bytes = 4000,
                      .gather_on = gather_on},
          .optimizer = OptimizerKind::adagrad,
          .cached = cached,
          .on = TrainsOn::update,
          .steps = 12};
}

/// Trains with the edge `what.left_out` left out. Returns how that shows, "" if it does not.
std::string trained(const CaptureCase& what, std::set<std::string>* edges) {
  CaptureRig rig{what};
  rig.compute_until_a_race();
  rig.train();
  if (const auto races = rig.races(); !races.empty()) return races.front();
  const bool all = rig.flush(std::chrono::minutes{1});
  rig.capture->stop();
  rig.program_device.leave_out("");
  for (const auto& [edge, times] : rig.program_device.edges()) {
    const bool ours = edge.find("gather") != std::string::npos ||
                      edge.find("capture") != std::string::npos || edge == "host waits for update";
    if (ours && edges != nullptr) edges->insert(edge);
  }
  const auto races = rig.races();
  if (!races.empty()) return races.front();
  const std::string difference = rig.compare();
  if (!difference.empty()) return difference;
  if (rig.capture->counts().failures != 0) return "what came was not what a gather writes";
  return all || edges != nullptr ? "" : "rows are left";
}

/// How a capture is used, which decides which of its waits can be tested.
enum class Use {
  whole,      ///< all rows are delivered at the end
  abandoned,  ///< destroyed with marks that no host wait covers
  torn,       ///< copies have begun, and the host's wait for their end failed
};

struct LeftOutCase {
  CaptureCase what;
  Use use = Use::whole;
  std::string wait{};  ///< the wait to leave out
};

/// Trains with a wait left out. Returns how that shows, "" if it does not.
std::string used(const LeftOutCase& left) {
  CaptureRig rig{left.what};
  rig.compute_until_a_race();
  ObserverWaits waits{rig, *rig.capture, left.wait};
  FaultInjector faults{rig.program_device};
  const auto end = [&](std::string found) {
    waits.during("end", false, [&] { rig.capture.reset(); });
    rig.churn_main(32);
    const auto races = rig.races();
    return races.empty() ? found : races.front();
  };
  if (left.use == Use::torn) {
    const bool of_event = left.what.options.mode == CaptureMode::mapped ||
                          left.what.options.mode == CaptureMode::ring_kernel;
    faults.fail(of_event ? Call::synchronize_event : Call::synchronize_stream,
                1 + left.what.data % 8, ErrorCode::unknown);
  }
  rig.train();
  if (!rig.races().empty()) return rig.races().front();
  if (left.use != Use::whole) return end("");
  bool all = false;
  waits.during("flush", false, [&] { all = rig.flush(std::chrono::minutes{1}); });
  rig.capture->stop();
  if (!rig.races().empty()) return rig.races().front();
  const std::uint64_t failures = rig.capture->counts().failures;
  std::string found = rig.compare();
  if (found.empty() && failures != 0) found = "what came was not what a gather writes";
  if (found.empty() && !all) found = "rows are left";
  return end(found);
}

constexpr std::uint64_t kSchedules = 20;

/// How a left-out wait shows under one of several schedules, "" if it does not.
std::string seen(LeftOutCase left, const std::string& wait) {
  left.wait = wait;
  std::string found;
  for (std::uint64_t i = 0; i < kSchedules && found.empty(); ++i) {
    left.what.schedule = left.what.data = 100 * seed() + i;
    found = used(left);
  }
  return found;
}

}  // namespace

TEST_CASE("each wait of a capture that is left out is a race or changes the delivered rows") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  const auto gather_on = GENERATE(GatherOn::update_stream, GatherOn::own_stream);
  const bool cached = GENERATE(false, true), on_main = GENERATE(false, true);
  CaptureCase what = left_out_case(mode, gather_on, cached);
  what.on = on_main ? TrainsOn::main : TrainsOn::update;
  std::set<std::string> edges;
  what.schedule = seed();
  REQUIRE(trained(what, &edges) == "");
  const std::string update = on_main ? "main" : "update";
  const bool itself = mode == CaptureMode::sync || mode == CaptureMode::sync_pageable;
  const auto redundant = [&](const std::string& edge) {
    // If the training thread waits for the copy, its later work comes after the gather anyway.
    if (itself && edge.ends_with("waits for gather") && !edge.starts_with("host")) return true;
    // A stream that waits for the update waits for all work that made the tables.
    if (!on_main && edge == "gather waits for main") return true;
    // A copy to pageable memory has waited when it returns.
    return mode == CaptureMode::sync_pageable && edge == "host waits for update";
  };
  // Here main only flushes, and the host has waited for all copies before its first two gathers.
  // Only a third gather, if there is one, needs this wait. If main trains, the wait is always
  // needed.
  if (mode == CaptureMode::ring_kernel && !on_main) edges.erase("main waits for capture");
  if (mode == CaptureMode::ring) CHECK(edges.contains("host waits for capture"));
  if (gather_on == GatherOn::own_stream) {
    CHECK(edges.contains("gather waits for " + update));
  }
  for (const std::string& edge : edges) {
    INFO(what.name() << ": " << edge);
    what.left_out = edge;
    std::string found;
    const std::uint64_t schedules = redundant(edge) ? 20 : 200;
    for (std::uint64_t i = 0; i < schedules && found.empty(); ++i) {
      what.schedule = 100 * seed() + i;
      found = trained(what, nullptr);
    }
    if (redundant(edge)) {
      CHECK(found == "");
    } else {
      CHECK(found != "");
    }
  }
}

TEST_CASE("without the next update's wait for the gather, the checker names both") {
  CaptureCase what = left_out_case(CaptureMode::ring, GatherOn::own_stream, false);
  what.left_out = "update waits for gather";
  // Not with the timed schedule, in which the host may see the end of the gather before the next
  // update.
  std::string race;
  for (std::uint64_t i = 0; i < kSchedules && race.empty(); ++i) {
    what.schedule = 100 * seed() + i;
    race = trained(what, nullptr);
  }
  INFO(race);
  CHECK(race.find("gather rows") != std::string::npos);
  CHECK(race.find("update tables") != std::string::npos);
}

TEST_CASE("each wait that some programs need is needed in exactly those programs") {
  struct Expected {
    CaptureMode mode;
    Use use;
    TrainsOn on;
    const char* wait;
    bool needed;
  };
  const auto expected = GENERATE(values<Expected>({
      // Memory that a capture allocated on main, and a stream that has waited for main since, or
      // not.
      {CaptureMode::ring, Use::whole, TrainsOn::off_main, "update waits for main, first 1", true},
      {CaptureMode::mapped, Use::whole, TrainsOn::off_main, "update waits for main, first 1", true},
      {CaptureMode::sync, Use::whole, TrainsOn::off_main, "update waits for main, first 1", true},
      {CaptureMode::ring, Use::whole, TrainsOn::update, "update waits for main, first 1", false},
      // The same for slots that it allocates later. Pinned memory belongs to the host from the
      // start.
      {CaptureMode::ring, Use::whole, TrainsOn::off_main, "update waits for main, later", true},
      {CaptureMode::ring, Use::whole, TrainsOn::update, "update waits for main, later", false},
      {CaptureMode::ring_kernel, Use::whole, TrainsOn::off_main, "update waits for main, later",
       false},
      // When all rows are delivered, the host has waited for all work, except for marks.
      {CaptureMode::ring, Use::whole, TrainsOn::update, "main waits for update, end", false},
      {CaptureMode::ring, Use::abandoned, TrainsOn::update, "main waits for update, end", true},
      {CaptureMode::mapped, Use::abandoned, TrainsOn::update, "main waits for update, end", true},
      // A copy whose end the host does not know.
      {CaptureMode::ring, Use::abandoned, TrainsOn::update, "main waits for capture, end", false},
      {CaptureMode::ring, Use::torn, TrainsOn::update, "main waits for capture, end", true},
      {CaptureMode::ring_kernel, Use::torn, TrainsOn::update, "main waits for capture, end", true},
      {CaptureMode::ring, Use::torn, TrainsOn::update, "update waits for capture, later", true},
  }));
  const bool whole = expected.use == Use::whole;
  LeftOutCase left{.what = left_out_case(expected.mode, GatherOn::update_stream, false),
                   .use = expected.use};
  left.what.on = expected.on;
  left.what.options.slots = whole ? 8 : 1;
  left.what.options.when_full = whole ? WhenFull::block : WhenFull::mark_dirty;
  INFO(left.what.name() << ": " << expected.wait);
  CHECK(seen(left, "") == "");
  const std::string found = seen(left, expected.wait);
  INFO(found);
  CHECK(!found.empty() == expected.needed);
}
