#include <nlohmann/json.hpp>

#include "millrace/observe/report.hpp"
#include "test/observe/trace_builder.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using nlohmann::json;
using test::TraceBuilder;

MemoryStatistics some_statistics() {
  MemoryStatistics statistics;
  statistics.bytes.requested = {90, 180};
  statistics.bytes.allocated = {100, 200};
  statistics.bytes.active = {150, 250};
  statistics.bytes.reserved = {400, 500};
  statistics.bytes.cached = {250, 300};
  statistics.counts.allocations = 12;
  statistics.counts.frees = 10;
  statistics.counts.segments_acquired = 3;
  statistics.counts.retries = 1;
  statistics.segments = 2;
  statistics.live_blocks = 2;
  statistics.streams = {{"main", {1, 1}, {60, 120}, 200}};
  statistics.tags = {{"batch", {}, {40, 80}, 0}};
  return statistics;
}

TEST_CASE("statistics are written with every gauge, count and share") {
  const json out = some_statistics();
  CHECK(out["bytes"]["active"] == json{{"current", 150}, {"peak", 250}});
  CHECK(out["bytes"].size() == 5);
  CHECK(out["counts"]["allocations"] == 12);
  CHECK(out["counts"]["retries"] == 1);
  CHECK(out["utilization"] == 0.5);
  CHECK(out["streams"][0]["name"] == "main");
  CHECK(out["streams"][0]["cached_bytes"] == 200);
  CHECK(out["tags"][0]["allocated_bytes"]["peak"] == 80);
}

TEST_CASE("the ladder is written as five levels, and explained by steps and shares") {
  TraceBuilder program;
  const StreamId copy = TraceBuilder::stream(2);
  program.acquire(0, 400);
  program.free(program.allocate(copy, {.address = 0, .bytes = 100, .tag = "batch"}), {{copy, 1}});
  program.allocate(TraceBuilder::stream(1),
                   {.address = 100, .bytes = 200, .requested = 150, .tag = "activations"});
  const Ladder ladder = attribute(program.trace);

  CHECK(json(ladder) ==
        json{{"l0", 150}, {"l1", 200}, {"l2", 300}, {"l3", 300}, {"reserved", 400}});
  const json out = explain(ladder, [](StreamId id) { return id.slot == 1 ? "main" : "copy"; });
  CHECK(out["l2"] == 300);
  CHECK(out["steps"] == json{{"rounding", 50}, {"streams", 100}, {"packing", 0}, {"policy", 100}});
  CHECK(out["heaviest_conflict"][1] == json{{"tag", "batch"},
                                            {"stream", "copy"},
                                            {"bytes", 100},
                                            {"blocks", 1},
                                            {"requested_bytes", 100},
                                            {"waits_for", "copy"}});
  CHECK(out["idle_at_peak"] ==
        json::array({{{"tag", "batch"}, {"stream", "copy"}, {"bytes", 100}}}));
}

TEST_CASE("a picture of failed memory names each stranded share, and a limit only if one is set") {
  MemoryPicture picture;
  picture.requested = 1000;
  picture.stream = "main";
  picture.stranded = {{"copy", 300, "after marker 17 of copy"}};
  json out = picture;
  CHECK(out["requested_bytes"] == 1000);
  CHECK(out["limit_bytes"].is_null());
  CHECK(out["stranded"][0] ==
        json{{"stream", "copy"}, {"bytes", 300}, {"usable", "after marker 17 of copy"}});
  picture.limit = 4096;
  out = picture;
  CHECK(out["limit_bytes"] == 4096);
}

TEST_CASE("usable bytes are written with their fragmentation") {
  const json out = UsableBytes{.total = 400, .largest = 100, .stranded = 50};
  CHECK(out["external_fragmentation"] == 0.75);
  CHECK(out["stranded_bytes"] == 50);
}

TEST_CASE("torch's keys exist only for statistics that have a counterpart") {
  const auto stats = torch_memory_stats(some_statistics());
  CHECK(stats.at("allocated_bytes.all.current") == 100);
  CHECK(stats.at("reserved_bytes.all.peak") == 500);
  CHECK(stats.at("allocation.all.allocated") == 12);
  CHECK(stats.at("num_alloc_retries") == 1);
  CHECK(stats.count("allocated_bytes.all.allocated") == 0);
  CHECK(stats.count("active_bytes.small_pool.current") == 0);
}

}  // namespace
}  // namespace millrace
