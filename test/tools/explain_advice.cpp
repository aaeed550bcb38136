#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/tools/program.hpp"

// The advice of `millrace explain` and the table above it.

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json explained(const std::string& file) {
  return document_of({"explain", file}).at("files").at(0).at("devices").at(0);
}

/// The law: advice agrees with the table. No row that the advice could name saves more, and each
/// saving is the difference between the recorded memory and the row.
void check_advice(const json& device) {
  const json& recorded = device.at("peak").at("reserved_bytes");
  REQUIRE_FALSE(recorded.is_null());
  const auto all = recorded.get<std::uint64_t>();
  const auto compared = device.at("compared_with_bytes").get<std::uint64_t>();
  CHECK(compared <= all);
  std::uint64_t advised = 0;
  for (const json& advice : device.at("advice")) {
    INFO(advice.dump(1));
    CHECK(advice.at("saved_bytes").get<std::uint64_t>() <= all);
    if (advice.at("at_most") == true) continue;
    const auto row = std::ranges::find_if(device.at("what_if"), [&](const json& each) {
      std::string name = each.at("allocator");
      if (each.at("change") != "none") name += ", " + each.at("change").get<std::string>();
      return name == advice.at("row");
    });
    REQUIRE(row != device.at("what_if").end());
    CHECK(advice.at("saved_bytes") == compared - row->at("reserved_bytes").get<std::uint64_t>());
    advised = std::max(advised, advice.at("saved_bytes").get<std::uint64_t>());
  }
  for (const json& row : device.at("what_if")) {
    const bool is_bound = row.at("allocator") == "driver, at least";
    if (row.at("reserved_bytes").is_null() || is_bound) continue;
    const auto reserved = row.at("reserved_bytes").get<std::uint64_t>();
    INFO(row.dump(1));
    if (reserved < compared) CHECK(compared - reserved < advised + all / 100 + (2 << 20));
  }
}

std::string footprint(const ScratchFolder& folder, const std::string& allocator,
                      const std::string& option, const std::string& name) {
  const std::string file = (folder / name).string();
  REQUIRE(run_program({"footprint", "--workload", "sparse_data_dist_base", "--allocator", allocator,
                       "--copy", "side-stream", "--seeds", "1", "--steps", "6", "--batch-bytes",
                       "64MiB", option, file})
              .exit_code == 0);
  return file;
}

}  // namespace

TEST_CASE("the advice on each snapshot is the largest saving that the table shows") {
  for (const auto& entry :
       std::filesystem::directory_iterator{source_folder() / "test/observe/snapshots"}) {
    if (entry.path().extension() != ".gz") continue;
    CAPTURE(entry.path().string());
    check_advice(explained(entry.path().string()));
  }
}

TEST_CASE("explain and replay show the same replays") {
  std::size_t limited = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator{source_folder() / "test/observe/snapshots"}) {
    if (entry.path().extension() != ".gz") continue;
    const std::string file = entry.path().string();
    CAPTURE(file);
    const json device = explained(file);
    const json replays = document_of({"replay", "--allocator", "torch,millrace", file});
    for (const json& replay : replays.at("files").at(0).at("replays")) {
      if (replay.at("start") != "live blocks" || replay.contains("error")) continue;
      if (replay.at("device") != device.at("device")) continue;
      const auto row = std::ranges::find_if(device.at("what_if"), [&](const json& each) {
        return each.at("allocator") == replay.at("allocator") && each.at("change") == "none";
      });
      REQUIRE(row != device.at("what_if").end());
      CHECK(row->at("reserved_bytes") ==
            replay.at("statistics").at("bytes").at("reserved").at("peak"));
      CHECK(device.at("what_if_device") == replay.at("device_memory"));
      limited += device.at("what_if_device").at("bytes").is_null() ? 0 : 1;
    }
  }
  CHECK(limited > 0);
}

TEST_CASE("explain says which allocator would serve the failed request") {
  // 20 MiB are free next to 24 MiB of stream 7, and the device has 20 MiB more. PyTorch cannot
  // serve 30 MiB on the default stream.
  const ScratchFolder scratch;
  constexpr std::uint64_t MiB = 1 << 20, base = 0x7f0000000000;
  const auto event = [&](const char* action, std::uint64_t bytes, int time) {
    return json{
        {"action", action}, {"addr", base}, {"size", bytes}, {"stream", 7}, {"time_us", time}};
  };
  json trace = json::array({event("segment_alloc", 44 * MiB, 0), event("alloc", 44 * MiB, 1),
                            event("free_requested", 44 * MiB, 2),
                            event("free_completed", 44 * MiB, 3), event("alloc", 24 * MiB, 4)});
  trace.push_back({{"action", "oom"},
                   {"device_free", 20 * MiB},
                   {"size", 30 * MiB},
                   {"stream", 0},
                   {"time_us", 5}});
  const json segment{{"device", 0},
                     {"address", base},
                     {"total_size", 44 * MiB},
                     {"stream", 7},
                     {"segment_type", "large"},
                     {"blocks",
                      {{{"address", base},
                        {"size", 24 * MiB},
                        {"requested_size", 24 * MiB},
                        {"state", "active_allocated"}},
                       {{"address", base + 24 * MiB}, {"size", 20 * MiB}, {"state", "inactive"}}}}};
  const std::string file =
      scratch.write("failed.json", json{{"segments", {segment}}, {"device_traces", {trace}}}.dump())
          .string();
  const json device = explained(file);
  CHECK(device.at("what_if_device") == json{{"bytes", 64 * MiB}, {"from", "out of memory"}});
  const auto serves = [&](const char* allocator) {
    for (const json& row : device.at("what_if")) {
      if (row.at("allocator") == allocator && row.at("change") == "none")
        return row.at("serves_failed_request").get<bool>();
    }
    FAIL("no row");
    return false;
  };
  CHECK_FALSE(serves("torch"));
  CHECK(serves("millrace"));
  REQUIRE_FALSE(device.at("advice").empty());
  CHECK(device.at("advice").at(0).at("serves_failed_request") == true);
  CHECK(device.at("advice").at(0).at("row") == "millrace");
  CHECK_THAT(run_program({"explain", file}).out,
             ContainsSubstring("serves what failed (\"millrace\"): run it on Millrace's"));
  CHECK_THAT(run_program({"replay", file}).out, ContainsSubstring("of the request that failed, "));
  for (const json& replay : document_of({"replay", "--allocator", "torch,millrace", file})
                                .at("files")
                                .at(0)
                                .at("replays")) {
    if (replay.at("start") != "live blocks") continue;
    CHECK(replay.at("failed_requests").at("tried") == 1);
    CHECK(replay.at("failed_requests").at("last_served") == (replay.at("allocator") == "millrace"));
  }
}

TEST_CASE("explain says if its replay differs from the record") {
  const auto out = [](const char* name) {
    return run_program({"explain", (source_folder() / "test/observe/snapshots" / name).string()})
        .out;
  };
  CHECK_THAT(out("made/range_used_twice.pickle"),
             ContainsSubstring("reserves 2.00 MiB more than was recorded"));
  CHECK_THAT(out("capture_streams.pickle.gz"),
             ContainsSubstring("note: 12.00 MiB of what was recorded is cache") &&
                 ContainsSubstring("saves most: 964.00 MiB (\"millrace, one stream\")"));
  CHECK_THAT(out("capture_streams.expandable.pickle.gz"),
             !ContainsSubstring("note: \"torch\"") &&
                 ContainsSubstring("saves most: 1.07 GiB (\"torch, one stream\")"));
  CHECK_THAT(out("stream_fragmentation.pickle.gz"), !ContainsSubstring("note: \"torch\""));
}

TEST_CASE("a trace and a snapshot of Millrace get advice that agrees with their tables") {
  const ScratchFolder folder;
  for (const char* const option : {"--record", "--snapshot"}) {
    CAPTURE(option);
    const json device = explained(footprint(folder, "torch", option, "run"));
    REQUIRE_FALSE(device.at("advice").empty());
    check_advice(device);
    std::filesystem::remove(folder / "run");
  }
}

TEST_CASE("a program on Millrace's allocator is not advised to use it") {
  const ScratchFolder folder;
  const json device = explained(footprint(folder, "millrace", "--snapshot", "run.pickle"));
  for (const json& advice : device.at("advice")) {
    CHECK_THAT(advice.at("change").get<std::string>(), !ContainsSubstring("Millrace's allocator"));
    CHECK(advice.at("at_most") == false);
  }
}

TEST_CASE("a run of footprint is advised to use another allocator, not PyTorch's loader") {
  const ScratchFolder folder;
  for (const char* const option : {"--record", "--snapshot"}) {
    CAPTURE(option);
    const std::string file = footprint(folder, "torch", option, "run");
    const json device = explained(file);
    std::string changes;
    for (const json& advice : device.at("advice")) {
      changes += advice.at("change").get<std::string>() + '\n';
    }
    CHECK_THAT(changes, ContainsSubstring("choose the policy millrace (--allocator millrace)"));
    CHECK_THAT(changes, !ContainsSubstring("python -m") && !ContainsSubstring("millrace run") &&
                            !ContainsSubstring("PYTORCH"));
    std::filesystem::remove(file);
    const json own = explained(footprint(folder, "millrace", option, "run"));
    for (const json& advice : own.at("advice")) {
      CHECK_THAT(advice.at("change").get<std::string>(), !ContainsSubstring("allocator"));
    }
    std::filesystem::remove(file);
  }
}

TEST_CASE("the ladder of a snapshot counts as recorded only if a replay repeats the peak") {
  std::size_t recorded = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator{source_folder() / "test/observe/snapshots"}) {
    if (entry.path().extension() != ".gz") continue;
    CAPTURE(entry.path().string());
    const json device = explained(entry.path().string());
    const json& ladder = device.at("ladder");
    REQUIRE_FALSE(ladder.is_null());
    const json& levels = ladder.at("levels");
    std::uint64_t below = 0;
    for (const char* const level : {"l0", "l1", "l2", "l3", "reserved"}) {
      CHECK(levels.at(level).get<std::uint64_t>() >= below);
      below = levels.at(level);
    }
    const bool as_recorded = levels.at("reserved") == device.at("peak").at("reserved_bytes");
    CHECK(ladder.at("is_recorded") == as_recorded);
    recorded += as_recorded ? 1 : 0;
  }
  CHECK(recorded > 3);
}

TEST_CASE("a log without reserved bytes says why it has no advice") {
  const ScratchFolder scratch;
  const std::string rmm = scratch
                              .write("rmm.csv",
                                     "Thread,Time,Action,Pointer,Size,Stream\n"
                                     "1,00:00:00:000001,allocate,0x7f00,4096,0x10\n"
                                     "1,00:00:00:000003,free,0x7f00,4096,0x10\n")
                              .string();
  const std::string out = run_program({"explain", rmm}).out;
  CHECK_THAT(out, ContainsSubstring("does not have what was reserved") &&
                      ContainsSubstring("reserves least"));
  CHECK_THAT(out, !ContainsSubstring("there is nothing to compare"));
}

TEST_CASE("explain agrees on the trace and the snapshot of one run") {
  const ScratchFolder folder;
  for (const char* const allocator : {"torch", "millrace"}) {
    CAPTURE(allocator);
    const json trace = explained(footprint(folder, allocator, "--record", "run.trace"));
    const json snapshot = explained(footprint(folder, allocator, "--snapshot", "run.pickle"));
    const json &parts = trace.at("peak").at("parts"), &others = snapshot.at("peak").at("parts");
    CHECK(trace.at("peak").at("reserved_bytes") == snapshot.at("peak").at("reserved_bytes"));
    CHECK(trace.at("most_live_bytes") == snapshot.at("most_live_bytes"));
    CHECK(parts.at("live") == others.at("live"));
    // Only the snapshot knows how rounding enlarges waiting blocks, so it counts less free memory.
    const auto waiting = parts.at("waiting").get<double>();
    CHECK(others.at("waiting").get<double>() >= waiting);
    CHECK(others.at("waiting").get<double>() <= 1.02 * waiting);
    CHECK(parts.at("rounding").is_null());
    const auto not_live = [](const json& all) {
      std::uint64_t sum = 0;
      for (const char* const part :
           {"waiting", "stream", "pool", "hard", "soft", "rounding", "rest"})
        sum += all.at(part).is_null() ? 0 : all.at(part).get<std::uint64_t>();
      return sum;
    };
    CHECK(not_live(parts) == not_live(others));
    for (const char* const name : {"run.trace", "run.pickle"})
      std::filesystem::remove(folder / name);
  }
}
