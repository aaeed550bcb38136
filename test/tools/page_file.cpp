#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "page/page_data.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/tools/page_reader.hpp"
#include "test/tools/program.hpp"

using namespace millrace::cli;
using Catch::Matchers::ContainsSubstring;
using namespace millrace::test;
using Json = nlohmann::json;

namespace {

std::string written(const PageData& data) {
  std::ostringstream out;
  write_page(data, out);
  return out.str();
}

PageRun small_run() {
  PageRun run;
  run.name = "run";
  run.events = 4;
  run.times_us = {10, 10, 12.5, 20};
  run.streams = {{0, "main"}, {0, "copy"}};
  run.tags = {"batch"};
  run.frames = {{"forward", "model.py", 7}, {"main", "train.py", 1}};
  run.stacks = {{0, 1}, {}};
  run.blocks = {{4096, 512, 500, 0, 0, 0, 2, 3, 0, 0, kUnknown, PageReuse::fresh},
                {4096, 512, 512, 0, 1, 3, kUnknown, kUnknown, kUnknown, 1, 0, PageReuse::ordered}};
  run.segments = {{4096, 8192, 0, 1, kUnknown, kUnknown, kUnknown}};
  return run;
}

/// The largest total size of a run's segments at any time, in bytes.
std::int64_t most_mapped(const std::string& page, const Json& run) {
  const Json& segments = run.at("segments");
  const auto bytes = column_numbers(page, segments.at("bytes"));
  const auto mapped = column_numbers(page, segments.at("mapped"));
  const auto unmapped = column_numbers(page, segments.at("unmapped"));
  std::map<std::int64_t, std::int64_t> changes;  // by event
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    changes[mapped[i]] += bytes[i];
    if (unmapped[i] != std::int64_t{kUnknown}) changes[unmapped[i]] -= bytes[i];
  }
  std::int64_t now = 0, most = 0;
  for (const auto& [event, change] : changes) most = std::max(most, now += change);
  return most;
}

/// A command with two runs, and the places of each run's figures in its JSON.
struct PageCommand {
  std::vector<std::string> words, as_json;
  std::vector<std::string> reserved, ladder;  ///< JSON pointers, by run
};

std::vector<PageCommand> page_commands(const std::string& trace) {
  const std::vector<std::string> to_stdout{"--json", "-"};
  return {
      {{"footprint", "--workload", "sparse_data_dist_base", "--batch-bytes", "64MiB", "--allocator",
        "torch,millrace", "--copy", "side-stream", "--seeds", "1", "--steps", "6"},
       to_stdout,
       {"/runs/0/peak_reserved_bytes", "/runs/1/peak_reserved_bytes"},
       {"/runs/0/ladder", "/runs/1/ladder"}},
      {{"pipelines", "--workload", "pr2916", "--pipeline", "base", "--copy", "side-stream",
        "--steps", "4", "--ranks", "2", "--batch-size", "64", "--seeds", "1"},
       to_stdout,
       {"/rows/0/peak_reserved_bytes", "/rows/1/peak_reserved_bytes"},
       {"/rows/0/ladder", "/rows/1/ladder"}},
      {{"stream", "bench", "--rows", "2000", "--table-rows", "4000", "--steps", "4", "--capture",
        "ring"},
       to_stdout,
       {"/sizes/0/without/bytes/reserved/peak", "/sizes/0/captures/0/bytes/reserved/peak"},
       {"/sizes/0/without/ladder", "/sizes/0/captures/0/ladder"}},
      {{"replay", trace},
       to_stdout,
       {"/files/0/replays/0/statistics/bytes/reserved/peak",
        "/files/0/replays/1/statistics/bytes/reserved/peak"},
       {"/files/0/replays/0/ladder", "/files/0/replays/1/ladder"}}};
}

}  // namespace

TEST_CASE("a page has every number of a run and distinguishes unknown numbers from 0") {
  const std::string page = written({"title", {small_run()}});
  const Json run = page_header(page).at("runs").at(0);
  const Json& blocks = run.at("blocks");
  const std::int64_t unknown = kUnknown;
  CHECK(column_numbers(page, blocks.at("address")) == std::vector<std::int64_t>{4096, 4096});
  CHECK(column_numbers(page, blocks.at("freed")) == std::vector<std::int64_t>{2, unknown});
  CHECK(column_numbers(page, blocks.at("tag")) == std::vector<std::int64_t>{0, unknown});
  CHECK(column_numbers(page, blocks.at("previous")) == std::vector<std::int64_t>{unknown, 0});
  CHECK(column_numbers(page, run.at("times")) == std::vector<std::int64_t>{0, 0, 2500, 10000});
  CHECK(column_numbers(page, run.at("stacks").at("ends")) == std::vector<std::int64_t>{2, 2});
  const Json& frames = run.at("stacks").at("frames");
  CHECK(Json::parse(column_bytes(page, frames, frames.at("count"))) ==
        Json::parse(R"([["forward", "model.py", 7], ["main", "train.py", 1]])"));

  PageRun unplaced = small_run();
  unplaced.blocks[1].address = kUnknownBytes;
  unplaced.blocks[1].requested = kUnknownBytes;
  const std::string other = written({"title", {unplaced}});
  const Json columns = page_header(other).at("runs").at(0).at("blocks");
  CHECK(column_numbers(other, columns.at("address")) == std::vector<std::int64_t>{4096, -1});
  CHECK(column_numbers(other, columns.at("requested")) == std::vector<std::int64_t>{500, -1});
}

TEST_CASE("columns of a page with any values are read back unchanged") {
  std::mt19937_64 random{seed()};
  PageRun run;
  run.events = 1000;
  for (int i = 0; i < 700; ++i) {
    PageBlock& block = run.blocks.emplace_back();
    block.address = random() >> (11 + random() % 53);
    block.bytes = random() >> (11 + random() % 53);
    block.allocated = static_cast<PageEvent>(random() % 1000);
    if (random() % 2 == 0) block.freed = static_cast<PageEvent>(random() % 1000);
  }
  const std::string page = written({"", {run}});
  const Json columns = page_header(page).at("runs").at(0).at("blocks");
  const auto addresses = column_numbers(page, columns.at("address"));
  const auto bytes = column_numbers(page, columns.at("bytes"));
  const auto freed = column_numbers(page, columns.at("freed"));
  for (std::size_t i = 0; i < run.blocks.size(); ++i) {
    REQUIRE(static_cast<std::uint64_t>(addresses[i]) == run.blocks[i].address);
    REQUIRE(static_cast<std::uint64_t>(bytes[i]) == run.blocks[i].bytes);
    REQUIRE(freed[i] == run.blocks[i].freed);
  }
}

TEST_CASE("no name in a trace is interpreted as markup of the page") {
  PageRun run = small_run();
  const std::string evil = "</script><script>alert(1)</script><!--\xff";
  run.name = run.tags[0] = run.streams[0].name = run.frames[0].function = evil;
  run.summary = {{evil}};
  const std::string page = written({evil, {run}}), plain = written({"", {small_run()}});
  const auto scripts = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("<script", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(scripts(page) == scripts(plain));
  CHECK_THAT(page, !ContainsSubstring("alert(1)</script>"));
  CHECK(page_header(page).at("title") == "</script><script>alert(1)</script><!--\xef\xbf\xbd");
}

TEST_CASE("a page loads nothing from a network") {
  const std::string page = written({"title", {small_run()}});
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  CHECK_THAT(page, !ContainsSubstring("src=") && !ContainsSubstring("<link"));
}

TEST_CASE("a page with inconsistent data is refused") {
  const auto refused = [](auto change) {
    PageRun run = small_run();
    change(run);
    CHECK_THROWS_AS(written({"title", {run}}), std::invalid_argument);
  };
  CHECK_NOTHROW(written({"title", {small_run(), small_run()}}));
  CHECK_THROWS_AS(written({"title", {}}), std::invalid_argument);
  CHECK_THROWS_AS(written({"title", {small_run(), small_run(), small_run()}}),
                  std::invalid_argument);
  refused([](PageRun& run) { run.blocks[0].stream = 2; });
  refused([](PageRun& run) { run.blocks[0].device = kUnknown; });
  refused([](PageRun& run) { run.blocks[0].stack = 2; });
  refused([](PageRun& run) { run.blocks[0].previous = 2; });
  refused([](PageRun& run) { run.blocks[0].freed = 5; });
  refused([](PageRun& run) { run.blocks[0].bytes = std::uint64_t{1} << 53; });
  refused([](PageRun& run) { run.stacks[0][0] = 2; });
  refused([](PageRun& run) { run.times_us[3] = 1; });
  refused([](PageRun& run) { run.times_us.pop_back(); });
  refused([](PageRun& run) { run.operations = {{0, PageOperationKind::copy, 0, 10, 11}}; });
  refused([](PageRun& run) { run.marks = {{PageMark::Kind::peak, "", NAN, NAN, 0}}; });
  refused([](PageRun& run) {
    run.counters = {{PageCounter::Kind::reserved, "", 0, {{2, 1}, {1, 2}}}};
  });
}

TEST_CASE("the page of a command has its runs, their work and the memory of its JSON") {
  const ScratchFolder scratch;
  const std::string trace =
      scratch
          .write("trace.csv", "id,lower,upper,size\n0,0,9,9000000\n1,1,4,40000000\n2,5,9,70000\n")
          .string();
  for (const PageCommand& command : page_commands(trace)) {
    const std::string file = (scratch / "page.html").string();
    const Json json = document_of(joined(command.words, {"--html", file}), command.as_json);
    const std::string page = read_file(file);
    const Json runs = page_header(page).at("runs");
    INFO(command.words[0]);
    REQUIRE(runs.size() == 2);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::int64_t reserved = json.at(Json::json_pointer{command.reserved[i]});
      CHECK(reserved > 0);
      CHECK(most_mapped(page, runs[i]) == reserved);
      const Json& ladder = json.at(Json::json_pointer{command.ladder[i]});
      const Json& rows = runs[i].at("tables").at(0).at("rows");
      std::vector<std::int64_t> shown, expected;
      for (const Json& row : rows) shown.push_back(row.at("bytes"));
      for (const char* const level : {"l0", "l1", "l2", "l3", "reserved"}) {
        expected.push_back(ladder.at(level));
      }
      CHECK(shown == expected);
      CHECK(runs[i].at("blocks").at("bytes").at("count") > 0);
      const bool is_replay = command.words[0] == "replay";  // it has no work, and so no time
      CHECK((runs[i].at("operations").at("begin").at("count") == 0) == is_replay);
      CHECK(runs[i].at("times").is_null() == is_replay);
    }
    CHECK(runs[0].at("name") != runs[1].at("name"));
  }
}

TEST_CASE("the page of a run has the other allocators and the advice of explain") {
  const ScratchFolder scratch;
  const std::string html = (scratch / "page.html").string(),
                    trace = (scratch / "run.trace").string();
  REQUIRE(run_program({"footprint", "--workload", "sparse_data_dist_base", "--batch-bytes", "64MiB",
                       "--allocator", "torch", "--copy", "side-stream", "--seeds", "1", "--steps",
                       "6", "--html", html, "--record", trace})
              .exit_code == 0);
  const Json run = page_header(read_file(html)).at("runs").at(0);
  const Json device = document_of({"explain", trace}).at("files").at(0).at("devices").at(0);
  std::map<std::string, Json> shown;
  for (const Json& table : run.at("tables")) {
    for (const Json& row : table.at("rows")) shown[row.at("label")] = row.at("bytes");
  }
  for (const Json& row : device.at("what_if")) {
    std::string name = row.at("allocator");
    if (row.at("change") != "none") name += ", " + row.at("change").get<std::string>();
    CAPTURE(name);
    CHECK(shown.at(name + ", replayed") == row.at("reserved_bytes"));
  }
  CHECK_THAT(run.at("summary").dump(),
             ContainsSubstring(device.at("advice").at(0).at("change").get<std::string>()));
  std::size_t steps = 0;
  for (const Json& mark : run.at("marks")) steps += mark.at("kind") == "step" ? 1 : 0;
  CHECK(steps == 6);
}

TEST_CASE("the first screens of pipelines, stream bench and replay end with advice") {
  const ScratchFolder scratch;
  const std::string trace =
      scratch
          .write("trace.csv", "id,lower,upper,size\n0,0,9,9000000\n1,1,4,40000000\n2,5,9,70000\n")
          .string();
  const auto commands = page_commands(trace);
  const auto out = [&](std::size_t command) { return run_program(commands.at(command).words).out; };
  CHECK_THAT(out(1), ContainsSubstring("to hold") && ContainsSubstring("of live") &&
                         ContainsSubstring("Another allocator: millrace, side-stream ") &&
                         ContainsSubstring("loop"));
  CHECK_THAT(out(2),
             ContainsSubstring("At 2,000 rows per step, the loop without a capture takes") &&
                 ContainsSubstring("Least added time and memory: ring, "));
  CHECK_THAT(out(3), ContainsSubstring("torch reserves") &&
                         ContainsSubstring("Another allocator: millrace "));
}

TEST_CASE("a command with more runs than a page shows is refused before it runs") {
  const ScratchFolder scratch;
  const std::string trace = scratch.write("trace.csv", "id,lower,upper,size\n0,0,9,90\n").string();
  const std::vector<std::vector<std::string>> commands{
      {"footprint"}, {"pipelines"}, {"stream", "bench"}, {"replay", trace, trace}};
  for (const std::vector<std::string>& command : commands) {
    const std::string file = (scratch / "page.html").string();
    const ProgramRun run = run_program(joined(command, {"--html", file}));
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring("--html") && ContainsSubstring("a page shows one"));
    CHECK(!std::filesystem::exists(file));
  }
}
