#include <fmt/format.h>

#include <set>

#include "test/streamer/capture/capture_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

CaptureCase case_of(CaptureWay way, GatherOn gather_on, bool cached) {
  return {.options = {.way = way,
                      .content = RowContent::weights_and_state,
                      .slots = way == CaptureWay::ring_kernel ? 4U : 2U,  // more than its buffers
                      .slot_bytes = 4000,
                      .gather_on = gather_on},
          .optimizer = OptimizerKind::adagrad,
          .cached = cached,
          .on = TrainsOn::update,
          .steps = 12};
}

/// Trains with these left out, and says how it shows: "" if it does not.
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

}  // namespace

TEST_CASE("every wait of a capture that is left out is named, or seen in what was told") {
  const auto way = GENERATE(from_range(kCaptureWays));
  const auto gather_on = GENERATE(GatherOn::update_stream, GatherOn::own_stream);
  const bool cached = GENERATE(false, true), on_main = GENERATE(false, true);
  CaptureCase what = case_of(way, gather_on, cached);
  what.on = on_main ? TrainsOn::main : TrainsOn::update;
  std::set<std::string> edges;
  what.schedule = seed();
  REQUIRE(trained(what, &edges) == "");
  const std::string update = on_main ? "main" : "update";
  // Where the training thread waits for the copy, nothing that it enqueues is before the gather.
  // And a stream that waits for the update waits for all that made the tables.
  if (way == CaptureWay::sync || way == CaptureWay::sync_pageable) {
    std::erase_if(edges, [](const std::string& edge) {
      return edge.ends_with("waits for gather") && !edge.starts_with("host");
    });
  }
  if (!on_main) edges.erase("gather waits for main");
  // A copy to pageable memory has waited when it returns.
  if (way == CaptureWay::sync_pageable) edges.erase("host waits for update");
  if (way == CaptureWay::ring) CHECK(edges.contains("host waits for capture"));
  if (gather_on == GatherOn::own_stream) {
    CHECK(edges.contains("gather waits for " + update));
  }
  for (const std::string& edge : edges) {
    INFO(what.name() << ": " << edge);
    what.left_out = edge;
    std::string found;
    for (std::uint64_t i = 0; i < 200 && found.empty(); ++i) {
      what.schedule = 100 * seed() + i;
      found = trained(what, nullptr);
    }
    CHECK(found != "");
  }
}

TEST_CASE("the next update waits for the gather: the checker names both, left out") {
  CaptureCase what = case_of(CaptureWay::ring, GatherOn::own_stream, false);
  what.left_out = "update waits for gather";
  const std::string race = trained(what, nullptr);
  INFO(race);
  CHECK(race.find("gather rows") != std::string::npos);
  CHECK(race.find("update tables") != std::string::npos);
}
