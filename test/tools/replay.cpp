#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/gzip.hpp"
#include "test/support/pickle_writer.hpp"
#include "test/support/sizes.hpp"
#include "test/tools/program.hpp"
#include "test/tools/rmm_log.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

const std::string kLifetimes = "id,lower,upper,size\n0,0,4,3000000\n1,1,3,5000000\n2,2,6,1000\n";

json replay_event(const char* action, std::uint64_t address, std::uint64_t bytes, int time) {
  return {{"action", action}, {"addr", address}, {"size", bytes}, {"stream", 0}, {"time_us", time}};
}

/// One device: a segment of 20 MiB, of which 4 MiB are used, freed, and used again.
json replay_snapshot() {
  const json block{{"address", kBase},
                   {"size", 4 * MiB},
                   {"requested_size", 4 * MiB},
                   {"state", "active_allocated"}};
  const json rest{{"address", kBase + 4 * MiB}, {"size", 16 * MiB}, {"state", "inactive"}};
  const json segment{{"device", 0},
                     {"address", kBase},
                     {"total_size", 20 * MiB},
                     {"stream", 0},
                     {"segment_type", "large"},
                     {"segment_pool_id", {0, 0}},
                     {"is_expandable", false},
                     {"blocks", {block, rest}}};
  const json trace{
      replay_event("segment_alloc", kBase, 20 * MiB, 1), replay_event("alloc", kBase, 4 * MiB, 2),
      replay_event("free_requested", kBase, 4 * MiB, 3),
      replay_event("free_completed", kBase, 4 * MiB, 4), replay_event("alloc", kBase, 4 * MiB, 5)};
  return {{"segments", json::array({segment})}, {"device_traces", json::array({trace})}};
}

/// Checks that a file is refused as bad input. Returns the message.
std::string replay_refusal(const std::string& file) {
  const ProgramRun run = run_program({"replay", file});
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') <= 3);
  CHECK_THAT(run.err, ContainsSubstring("millrace replay: ") && ContainsSubstring("right: "));
  return run.err;
}

std::string refused_text(const std::string& name, const std::string& text) {
  const ScratchFolder scratch;
  const auto file = scratch.write(name, text);
  const std::string said = replay_refusal(file.string());
  CHECK_THAT(said, ContainsSubstring(file.string()));
  return said;
}

json replayed(const std::vector<std::string>& arguments) {
  return document_of(joined({"replay"}, arguments));
}

}  // namespace

TEST_CASE("replay refuses pickles that are cut short or would run code") {
  const std::string good = to_pickle(replay_snapshot());
  CHECK_THAT(refused_text("cut.pickle", good.substr(0, good.size() / 2)),
             ContainsSubstring("byte "));
  const ScratchFolder scratch;
  const std::string mark = (scratch / "owned").string();
  const std::string evil =
      "\x80\x02"
      "cposix\nsystem\nX" +
      std::string{static_cast<char>(6 + mark.size()), 0, 0, 0} + "touch " + mark + "\x85R.";
  CHECK_THAT(refused_text("evil.pickle", evil), ContainsSubstring("would run code"));
  CHECK(scratch.names().empty());
}

TEST_CASE("replay refuses logs that contradict themselves, with the line") {
  CHECK_THAT(refused_text("twice.csv",
                          "Thread,Time,Action,Pointer,Size,Stream\n"
                          "1,00:00:00:000001,allocate,0x7f00,4096,0x10\n"
                          "1,00:00:00:000002,free,0x7f00,4096,0x10\n"
                          "1,00:00:00:000003,free,0x7f00,4096,0x10\n"),
             ContainsSubstring("line 4") && ContainsSubstring("a second time"));
  CHECK_THAT(
      refused_text("negative.csv", "id,lower,upper,size\n0,0,4,-5\n"),
      ContainsSubstring("line 2") && ContainsSubstring("'-5'") && !ContainsSubstring("an RMM log"));
  CHECK_THAT(refused_text("backwards.csv", "id,lower,upper,size\n0,5,4,5\n"),
             ContainsSubstring("line 2"));
}

TEST_CASE("replay refuses files that are not traces") {
  const std::string said = refused_text("text.xyz", "hello\n");
  const std::size_t listed = said.find("lifetimes (CSV");
  CHECK(listed != std::string::npos);
  CHECK(said.find("lifetimes (CSV", listed + 1) == std::string::npos);
  refused_text("empty.pickle", "");
  refused_text("number.json", R"({"segments": 5})");
  refused_text("other.json", R"({"a": 1})");
  refused_text("noise.bin", std::string{"\x7f"
                                        "ELF\0\0\1\2",
                                        8});
  const ScratchFolder scratch;
  CHECK_THAT(replay_refusal((scratch / "missing.pickle").string()),
             ContainsSubstring("No such file"));
  CHECK_THAT(replay_refusal((scratch / "").string()), ContainsSubstring("folder"));
}

TEST_CASE("replay refuses gzip files that are cut short or inflate without end") {
  const std::string packed = gzipped(kLifetimes);
  CHECK_THAT(refused_text("cut.gz", packed.substr(0, packed.size() / 2)),
             ContainsSubstring("cut short"));
  CHECK_THAT(refused_text("bomb.gz", gzipped(std::string(100 * MiB, ' '))),
             ContainsSubstring("inflates to more than"));
}

TEST_CASE("replay names only the detected format of a file with one wrong field") {
  const std::string said = refused_text("rmm.csv",
                                        "Thread,Time,Action,Pointer,Size,Stream\n"
                                        "1,00:00:00:000001,allocate,0x7f00,much,0x10\n");
  CHECK_THAT(said, !ContainsSubstring("lifetimes (CSV") && !ContainsSubstring("PyTorch"));
  CHECK_THAT(refused_text("none.json", "{}"),
             ContainsSubstring("right: a PyTorch memory snapshot (pickle or JSON)\n"));
}

TEST_CASE("replay and explain report one allocation in the singular") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("one.csv", "id,lower,upper,size\n0,0,4,512\n").string();
  CHECK_THAT(run_program({"replay", file}).out, ContainsSubstring("  1 allocation, 1 free\n"));
  CHECK_THAT(run_program({"explain", file}).out, ContainsSubstring("1 allocation, 1 free"));
  CHECK_THAT(run_program({"replay", "--device-bytes", "4KiB", file}).err +
                 run_program({"replay", "--device-bytes", "4KiB", file}).out,
             !ContainsSubstring("0.00 MiB"));
}

TEST_CASE("replay refuses an invalid value of an option with the valid values") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("trace.csv", kLifetimes).string();
  const std::vector<std::vector<std::string>> wrong{{"--allocator", "pytorch"},
                                                    {"--format", "xml"},
                                                    {"--device-bytes", "0"},
                                                    {"--device-bytes", "much"}};
  for (const auto& arguments : wrong) {
    const ProgramRun run = run_program({"replay", file, arguments[0], arguments[1]});
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err,
               ContainsSubstring("where: " + arguments[0]) && ContainsSubstring("right: "));
  }
  CHECK(run_program({"replay"}).exit_code == 2);
}

TEST_CASE("replay reports a device that is too small") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("trace.csv", kLifetimes).string();
  const ProgramRun run = run_program({"replay", file, "--device-bytes", "4MiB"});
  CHECK(run.exit_code == 5);  // no row has figures
  CHECK_THAT(run.out, ContainsSubstring("out of memory") && ContainsSubstring("--device-bytes"));
  const ProgramRun json =
      run_program({"replay", file, "--device-bytes", "4MiB", "--format", "json"});
  CHECK(json.exit_code == 5);
  for (const auto& row : json::parse(json.out).at("files").at(0).at("replays")) {
    CHECK_THAT(row.at("error").get<std::string>(), ContainsSubstring("out of memory"));
    CHECK(row.at("device_memory").at("bytes") == 4 * MiB);
  }
}

TEST_CASE("a row of replay that does not fit says so, and the other rows have their figures") {
  // PyTorch takes a segment of 20 MiB for each of these requests. Millrace takes what is needed.
  const ScratchFolder scratch;
  const std::string file =
      scratch
          .write("trace.csv", "id,lower,upper,size\n0,0,9,9000000\n1,1,9,9000000\n2,2,9,9000000\n")
          .string();
  const ProgramRun run =
      run_program({"replay", file, "--device-bytes", "32MiB", "--format", "json"});
  CHECK(run.exit_code == 0);
  const json rows = json::parse(run.out).at("files").at(0).at("replays");
  REQUIRE(rows.size() == 2);
  CHECK(rows.at(0).contains("error"));
  CHECK(rows.at(1).at("statistics").at("bytes").at("reserved").at("peak") <= 32 * MiB);
}

TEST_CASE("a trace without recorded segments has no curve and no row of PyTorch") {
  const ScratchFolder scratch;
  const std::string lifetimes = scratch.write("trace.csv", kLifetimes).string();
  const std::string rmm = scratch.write("rmm.csv", kFailingRmmLog).string();
  for (const std::string& file : {lifetimes, rmm}) {
    const ProgramRun run = run_program({"replay", file});
    INFO(run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out.find("PyTorch") == std::string::npos);
    CHECK(run.out.find("over the trace's events") == std::string::npos);
    for (const json& row : replayed({file}).at("files").at(0).at("replays")) {
      CHECK_FALSE(row.contains("reserved_curve"));
    }
  }
  CHECK_THAT(run_program({"replay", rmm}).out,
             ContainsSubstring("the recorded allocator failed 1 time (line 3"));
}

TEST_CASE("allocators are compared from live blocks, only PyTorch's own row has its cache") {
  // PyTorch held an empty segment of 200 MiB when the trace began, and 4 MiB of another segment.
  json held = replay_snapshot();
  json& trace = held["device_traces"][0];
  trace = json::array({replay_event("alloc", kBase + 4 * MiB, 2 * MiB, 5)});
  held["segments"][0]["blocks"] = {
      {{"address", kBase},
       {"size", 4 * MiB},
       {"requested_size", 4 * MiB},
       {"state", "active_allocated"}},
      {{"address", kBase + 4 * MiB},
       {"size", 2 * MiB},
       {"requested_size", 2 * MiB},
       {"state", "active_allocated"}},
      {{"address", kBase + 6 * MiB}, {"size", 14 * MiB}, {"state", "inactive"}}};
  json cached = held["segments"][0];
  cached["address"] = kBase + 1024 * MiB;
  cached["total_size"] = 200 * MiB;
  cached["blocks"] = {
      {{"address", kBase + 1024 * MiB}, {"size", 200 * MiB}, {"state", "inactive"}}};
  held["segments"].push_back(cached);
  const ScratchFolder scratch;
  const std::string file = scratch.write("s.pickle", to_pickle(held)).string();
  const json rows = replayed({file}).at("files").at(0).at("replays");
  const auto peak = [&](std::size_t row) {
    return rows.at(row).at("statistics").at("bytes").at("reserved").at("peak");
  };
  CHECK(rows.at(0).at("start_reserved_bytes") == 220 * MiB);
  CHECK(peak(0) == 220 * MiB);
  CHECK(rows.at(1).at("allocator") == "torch");
  CHECK(rows.at(1).at("start_reserved_bytes") == 20 * MiB);
  CHECK(peak(1) == 20 * MiB);
  const ProgramRun run = run_program({"replay", file});
  CHECK_THAT(run.out, ContainsSubstring("torch, empty start") &&
                          ContainsSubstring("\"torch, empty start\" reserves 20.00 MiB to hold") &&
                          ContainsSubstring("Another allocator: millrace") &&
                          ContainsSubstring("220.00 MiB with its cache") &&
                          ContainsSubstring("a device without a limit"));
}

TEST_CASE("a snapshot's replay reports decisions, PyTorch's own curve and lower bounds") {
  const ScratchFolder scratch;
  const std::string file = scratch.write("s.pickle", to_pickle(replay_snapshot())).string();
  const json document = replayed({file});
  CHECK(document.at("schema") == "millrace.replay/1");
  const json& entry = document.at("files").at(0);
  CHECK(entry.at("file") == file);
  CHECK(entry.at("format") == "PyTorch snapshot");
  CHECK(entry.at("warnings").empty());
  REQUIRE(entry.at("replays").size() == 3);
  const json& torch = entry.at("replays").at(0);
  CHECK(torch.at("allocator") == "torch");
  CHECK(torch.at("decisions").at("same") == 2);
  CHECK(torch.at("decisions").at("total") == 2);
  CHECK(torch.at("decisions").at("segments_same") == 1);
  CHECK(torch.at("load_bytes") == 4 * MiB);
  CHECK(torch.at("packed_bytes") == 4 * MiB);
  CHECK(torch.at("recorded_peak_reserved_bytes") == 20 * MiB);
  CHECK(torch.at("reserved_curve").at(0).at("recorded_bytes") == 0);
  CHECK(torch.at("reserved_curve").back().at("recorded_bytes") == 20 * MiB);
  CHECK(torch.at("reserved_curve").back().at("replayed_bytes") == 20 * MiB);
  CHECK(torch.at("start") == "recorded");
  for (const std::size_t row : {1, 2}) {
    CHECK_FALSE(entry.at("replays").at(row).contains("decisions"));
    CHECK(entry.at("replays").at(row).at("start") == "live blocks");
  }

  const ProgramRun run = run_program({"replay", file});
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out,
             ContainsSubstring("decisions: 2 of 2") && ContainsSubstring("PyTorch, recorded") &&
                 ContainsSubstring("most live at once") && ContainsSubstring("packed offline") &&
                 ContainsSubstring("Nothing can hold"));
}

TEST_CASE("a gzipped or JSON snapshot is recognized by its content") {
  const ScratchFolder scratch;
  for (const std::string& text :
       {gzipped(to_pickle(replay_snapshot())), replay_snapshot().dump()}) {
    const json document = replayed({scratch.write("trace", text).string()});
    CHECK(document.at("files").at(0).at("replays").at(0).at("decisions").at("same") == 2);
  }
}

TEST_CASE("each device of a snapshot has its own table") {
  json both = replay_snapshot();
  json segment = both["segments"][0];
  segment["device"] = 1;
  both["segments"].push_back(segment);
  both["device_traces"].push_back(both["device_traces"][0]);
  const ScratchFolder scratch;
  const std::string file = scratch.write("s.pickle", to_pickle(both)).string();
  CHECK_THAT(run_program({"replay", file}).out,
             ContainsSubstring("device 0") && ContainsSubstring("device 1"));
  CHECK(replayed({file}).at("files").at(0).at("replays").size() == 6);
}

TEST_CASE("a replay's result is written to a file completely or not at all") {
  const ScratchFolder scratch;
  const std::string good = scratch.write("good.csv", kLifetimes).string();
  const std::string bad = scratch.write("bad.csv", "id,lower,upper,size\n0,0,4,-5\n").string();
  const auto out = scratch / "out.json";
  CHECK(run_program({"replay", bad, "--format", "json", "-o", out.string()}).exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(out));
  // A refused file does not remove the results of the others.
  CHECK(run_program({"replay", good, bad, "--format", "json", "-o", out.string()}).exit_code == 2);
  CHECK(json::parse(read_file(out)).at("files").size() == 1);
  CHECK(run_program({"replay", good, "--format", "json", "-o", out.string()}).exit_code == 0);
  const json document = json::parse(read_file(out));
  CHECK(document.at("files").at(0).at("format") == "lifetimes");
  CHECK(document.at("files").at(0).at("replays").at(0).at("load_bytes") == 8'001'000);
}
