#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/text.hpp"
#include "explain/explained.hpp"
#include "explain/page.hpp"
#include "test/observe/pool_program.hpp"
#include "test/observe/what_if_script.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"
#include "test/tools/program.hpp"

// `millrace explain` with Millrace's own traces.

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr std::uint64_t kTraced = std::uint64_t{1} << 40;

std::string file_of(const ScratchFolder& scratch, Script& script) {
  script.writer.reset();
  return scratch.write("run.trace", script.sink.text).string();
}

/// A block on a named stream, in newly reserved memory.
void allocate(Script& script, std::uint32_t stream, std::uint64_t address, std::uint64_t bytes,
              millrace::trace::StackTable::Id site = 0) {
  script.writer->reserved(0, address, bytes);
  static_cast<void>(script.writer->allocated(
      {.stream = stream, .address = address, .bytes = bytes, .stack = site}));
}

json explained_device(const std::string& file) {
  return document_of({"explain", file}).at("files").at(0).at("devices").at(0);
}

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return (code < 0x20 && byte != '\n') || code == 0x7f;
}

}  // namespace

TEST_CASE("control characters in a trace are escaped before they are printed") {
  using millrace::cli::printable;
  CHECK(printable("layer_1 (model.py:3)") == "layer_1 (model.py:3)");
  CHECK(printable("größe → 日本") == "größe → 日本");
  CHECK(printable("f\x1b[31mred\x07") == "f\\x1b[31mred\\x07");
  CHECK(printable("tr\nain\r\t\x7f") == "tr\\x0aain\\x0d\\x09\\x7f");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\u009b31m");
  CHECK(printable("\xe2\x80\xae"
                  "gnp") == "\\u202egnp");
}

TEST_CASE("names of a hostile trace cannot break the output") {
  const ScratchFolder scratch;
  Script script;
  script.writer->device(0, std::uint64_t{1} << 34, "GPU");
  const std::uint32_t main = script.stream("ma\x1b]0;title\x07in"), copy = script.stream("c\nopy");
  const auto site =
      script.writer->stack(0, script.writer->frame({"tr\nain.py", "f\x1b[31mred\x07\xff", 7}));
  allocate(script, main, kTraced, 30 * MiB, site);
  allocate(script, copy, 2 * kTraced, 50 * MiB, site);
  const std::string file = file_of(scratch, script);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"explain", file},
                                                    {"explain", "--wide", file},
                                                    {"explain", file, "--against", file},
                                                    {"replay", file},
                                                    {"replay", "--what-if", file}}) {
    const ProgramRun run = run_program(arguments);
    CAPTURE(arguments, run.err);
    REQUIRE(run.exit_code == 0);
    CHECK(std::ranges::none_of(run.out, is_control));
    CHECK_THAT(run.out, !ContainsSubstring("\xff"));
    CHECK_THAT(run.out, !ContainsSubstring("\nain.py") && !ContainsSubstring("\nopy"));
  }
  CHECK_THAT(run_program({"explain", "--wide", file}).out,
             ContainsSubstring("f\\x1b[31mred\\x07\\xff"));
}

TEST_CASE("stream names of a recording are not prefixed again") {
  const ScratchFolder scratch;
  Script script;
  const std::uint32_t first = script.stream("default stream"), second = script.stream("stream 3"),
                      third = script.stream("copy");
  const std::uint32_t all = script.writer->stream({.name = "cudaMalloc", .for_all = true});
  for (const std::uint32_t stream : {first, second, third, all})
    allocate(script, stream, kTraced * (stream + 1), 30 * MiB);
  const std::string file = file_of(scratch, script);
  const std::string out = run_program({"explain", file}).out;
  CHECK_THAT(out, !ContainsSubstring("stream stream") && !ContainsSubstring("stream default"));
  CHECK_THAT(out, ContainsSubstring("by cudaMalloc"));
  const auto page = millrace::cli::page_data_of(
      millrace::cli::explain_file(file, millrace::cli::Replays::none), nullptr);
  std::vector<std::string> names;
  for (const auto& stream : page.runs.at(0).streams) names.push_back(stream.name);
  CHECK(names == std::vector<std::string>{"default", "stream 3", "copy", "cudaMalloc"});
}

TEST_CASE("a failed request of a trace is reported with the reason") {
  const ScratchFolder scratch;
  const auto explained = [&](std::uint64_t asked) {
    Script script;
    script.writer->device(0, 1024 * MiB, "GPU");
    const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
    allocate(script, copy, kTraced, 300 * MiB);
    allocate(script, main, 2 * kTraced, 400 * MiB);
    script.writer->freed(0, copy);
    script.writer->failed(main, asked);
    return document_of({"explain", file_of(scratch, script)});
  };
  const auto failure_of = [](const json& document) {
    return document.at("files").at(0).at("devices").at(0).at("out_of_memory");
  };
  const json failure = failure_of(explained(250 * MiB));
  CHECK(failure.at("failures") == 1);
  CHECK(failure.at("requested_bytes") == 250 * MiB);
  CHECK(failure.at("reason") == "stream");
  CHECK(failure.at("device_free_bytes") == 324 * MiB);
  CHECK(failure.at("device_free_is_at_most") == true);
  CHECK_THAT(failure.at("sentences").dump(),
             ContainsSubstring("a request of 250.00 MiB on the stream main") &&
                 ContainsSubstring("belongs to the stream copy"));
  CHECK(failure_of(explained(2048 * MiB)).at("reason") == "beyond device");
  CHECK(failure_of(explained(1000 * MiB)).at("reason") == "live");
  CHECK(failure_of(explained(310 * MiB)).at("reason") == "unknown");  // others may use the device
}

TEST_CASE("a trace with a failed request is replayed with its device's memory size") {
  const ScratchFolder scratch;
  const auto explained = [&](bool fails) {
    Script script;
    script.writer->device(0, 1024 * MiB, "GPU");
    const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
    allocate(script, copy, kTraced, 700 * MiB);
    allocate(script, main, 2 * kTraced, 200 * MiB);
    script.writer->freed(0, copy);
    if (fails) script.writer->failed(main, 500 * MiB);
    return file_of(scratch, script);
  };
  CHECK(explained_device(explained(false)).at("what_if_device").at("bytes").is_null());
  const std::string file = explained(true);
  const json device = explained_device(file);
  CHECK(device.at("what_if_device") == json{{"bytes", 1024 * MiB}, {"from", "device"}});
  std::map<std::string, bool> serves;
  for (const json& row : device.at("what_if")) {
    if (row.contains("serves_failed_request") && row.at("change") == "none")
      serves[row.at("allocator")] = row.at("serves_failed_request");
  }
  CHECK(serves.at("millrace"));  // in stream order, main can use what copy freed
  const std::string out = run_program({"explain", file}).out;
  CHECK_THAT(out, ContainsSubstring("the replays run on a device of 1.00 GiB, the whole device"));
  // The recorded allocator failed, so the advice is the row that serves the request.
  CHECK_THAT(out, !ContainsSubstring("no change that was replayed"));
  REQUIRE(!device.at("advice").empty());
  CHECK(device.at("advice").at(0).at("serves_failed_request") == true);
}

TEST_CASE("memory that an allocator reserved ahead does not count as a saving") {
  const ScratchFolder scratch;
  Script script;
  const std::uint32_t main = script.stream("main");
  allocate(script, main, kTraced, 200 * MiB);
  script.writer->reserved(0, 2 * kTraced, 700 * MiB);  // no block needs it
  const std::string file = file_of(scratch, script);
  const json device = explained_device(file);
  CHECK(device.at("peak").at("reserved_bytes") == 900 * MiB);
  CHECK(device.at("compared_with_bytes") == 200 * MiB);
  CHECK(device.at("advice").empty());
  // A replay is compared with the program as it ran.
  CHECK_THAT(run_program({"replay", file}).out,
             ContainsSubstring("as it ran reserves 900.00 MiB to hold 200.00 MiB of live data.") &&
                 ContainsSubstring("Least of the replays: "));
}

TEST_CASE("a snapshot that allocates memory twice is explained with a warning") {
  constexpr std::uint64_t kBase = std::uint64_t{1} << 32, kFree = 152'987'648;
  constexpr std::uint64_t kSegment = 160 * MiB;
  const auto block = [](std::uint64_t begin, std::uint64_t end, const char* state) {
    return json{{"address", kBase + begin},
                {"size", end - begin},
                {"requested_size", end - begin},
                {"state", state},
                {"frames", json::array()}};
  };
  const auto event = [](const char* action, std::uint64_t at, std::uint64_t bytes) {
    return json{{"action", action}, {"addr", kBase + at}, {"size", bytes},
                {"stream", 0},      {"time_us", 1},       {"frames", json::array()}};
  };
  // A contradiction: memory is mapped into a segment that already exists as a whole.
  const json snapshot{
      {"allocator_settings", {{"expandable_segments", true}, {"max_split_size", 64 * MiB}}},
      {"segments",
       {{{"address", kBase},
         {"total_size", kSegment},
         {"stream", 0},
         {"segment_type", "large"},
         {"device", 0},
         {"is_expandable", false},
         {"blocks", {block(0, kFree, "inactive"), block(kFree, kSegment, "active_allocated")}}}}},
      {"device_traces",
       {{event("segment_map", 40 * MiB, 100 * MiB), event("alloc", 23'316'480, 111'254'487)}}}};
  const ScratchFolder scratch;
  const std::string file = scratch.write("twice.json", snapshot.dump()).string();
  CHECK(run_program({"explain", file}).exit_code == 0);
  const auto replayed = run_program({"replay", "--allocator", "torch", file});
  CHECK(replayed.exit_code == 0);
  CHECK_THAT(replayed.out, ContainsSubstring("contradicts"));
}

TEST_CASE("a trace with an impossible device size is explained and replayed") {
  const ScratchFolder scratch;
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1} << 57}) {
    Script script;
    script.writer->device(0, bytes, "GPU");
    allocate(script, script.stream("main"), kTraced, 700 * MiB);
    const std::string file = file_of(scratch, script);
    CHECK(run_program({"replay", "--what-if", file}).exit_code == 0);
    const json device = explained_device(file);
    const auto driver = std::ranges::find_if(device.at("what_if"), [](const json& row) {
      return row.at("allocator") == "driver, at most";
    });
    REQUIRE(driver != device.at("what_if").end());
    CHECK(driver->at("reserved_bytes").is_null() == (bytes == 1));  // null if it does not fit
  }
}

TEST_CASE("explain numbers the events of a trace as its page does") {
  const ScratchFolder scratch;
  Script script;
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  script.writer->marked(main, 1);  // not an event of the allocator
  script.writer->waited(copy, main, 1);
  allocate(script, main, kTraced, 30 * MiB);
  const std::string file = file_of(scratch, script);
  CHECK(explained_device(file).at("peak").at("event").at("position") == 1);
  const std::string out = run_program({"explain", file}).out;
  CHECK_THAT(out, ContainsSubstring("at event 1, by a request"));
  CHECK_THAT(out, !ContainsSubstring("at line"));
}

TEST_CASE("on a trace's page live and waiting bytes never exceed reserved bytes") {
  using namespace millrace::cli;
  const ScratchFolder scratch;
  CHECK(rc::check([&] {
    const std::string file =
        scratch.write("run.trace", PoolProgram{*rc::gen::arbitrary<std::uint64_t>()}.trace(100))
            .string();
    const ExplainedFile explained = explain_file(file, Replays::none);
    const PageRun run = page_data_of(explained, nullptr).runs.at(0);
    std::vector<std::int64_t> used(run.events + 1), reserved(run.events + 1);
    const auto add = [&](std::vector<std::int64_t>& levels, PageEvent from, PageEvent to,
                         std::uint64_t bytes) {
      levels[from == kUnknown ? 0 : from] += static_cast<std::int64_t>(bytes);
      levels[std::min(to, run.events)] -= static_cast<std::int64_t>(bytes);
    };
    for (const PageBlock& block : run.blocks)
      add(used, block.allocated, block.freed == kUnknown ? kUnknown : block.ready, block.bytes);
    for (const PageSegment& segment : run.segments)
      add(reserved, segment.mapped, segment.unmapped, segment.bytes);
    std::int64_t in_use = 0, held = 0, peak = 0;
    for (PageEvent event = 0; event < run.events; ++event) {
      in_use += used[event];
      held += reserved[event];
      peak = std::max(peak, held);
      RC_ASSERT(in_use <= held);
    }
    if (explained.devices.empty() || !explained.devices[0].memory.peak.reserved) return;
    RC_ASSERT(static_cast<std::uint64_t>(peak) == *explained.devices[0].memory.peak.reserved);
  }));
}

TEST_CASE("values of memory that a trace lacks are not shown as 0") {
  const ScratchFolder scratch;
  Script script;
  allocate(script, script.stream("main"), kTraced, 30 * MiB);
  const std::string file = file_of(scratch, script);
  CHECK(explained_device(file).at("peak").at("parts").at("rounding").is_null());
  const auto explained = millrace::cli::explain_file(file, millrace::cli::Replays::none);
  const auto page = millrace::cli::page_data_of(explained, nullptr);
  for (const auto& row : page.runs.at(0).tables.at(0).rows) {
    const bool unknown = row.label == "rounding" || row.label == "rest";
    CHECK(row.bytes.has_value() != unknown);
  }
}

TEST_CASE("a trace whose times are positions shows no times on its page") {
  const ScratchFolder scratch;
  for (const bool positions : {true, false}) {
    Script script;
    script.writer->device(0, 0, "GPU", {.times_are_positions = positions});
    script.now = 5;
    allocate(script, script.stream("main"), kTraced, 30 * MiB);
    const auto explained =
        millrace::cli::explain_file(file_of(scratch, script), millrace::cli::Replays::none);
    CHECK(millrace::cli::page_data_of(explained, nullptr).runs.at(0).times_us.empty() == positions);
  }
}

TEST_CASE("explain says that a recording made up the addresses") {
  const ScratchFolder scratch;
  Script script;
  script.writer->device(0, 0, "GPU", {.addresses_are_made_up = true});
  allocate(script, script.stream("main"), kTraced, 30 * MiB);
  CHECK_THAT(run_program({"explain", file_of(scratch, script)}).out,
             ContainsSubstring("made up the addresses"));
}

TEST_CASE("side streams are all streams except the one with the most memory") {
  const ScratchFolder scratch;
  Script script;
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  for (std::uint64_t i = 0; i < 4; ++i) allocate(script, main, kTraced + i * 64 * MiB, 64 * MiB);
  script.writer->freed(0, main);
  script.writer->completed(0);
  allocate(script, copy, 2 * kTraced, 10 * MiB);
  const json device = explained_device(file_of(scratch, script));
  CHECK(device.at("peak").at("asker").at("stream") == "stream copy");
  for (const json& row : device.at("what_if")) {
    if (row.at("change") != "ring" || row.at("allocator") != "torch") continue;
    CHECK(row.at("reserved_bytes") == (4 * 64 + 10) * MiB);
  }
}

TEST_CASE("changes of every size have a unit in which they are not shown as 0") {
  const ScratchFolder scratch;
  const auto trace = [&](const char* name, std::uint64_t bytes, std::uint64_t less) {
    Script script;
    const std::uint32_t main = script.stream("main");
    allocate(script, main, kTraced, 2048 * MiB, script.site("weights"));
    allocate(script, main, 2 * kTraced, bytes, script.site("grows"));
    allocate(script, main, 3 * kTraced, less, script.site("shrinks"));
    script.writer.reset();
    return scratch.write(name, script.sink.text).string();
  };
  const std::string out =
      run_program({"explain", trace("after", MiB, 512), "--against", trace("before", 512, MiB)})
          .out;
  const std::string changes = out.substr(out.find("from "));
  CHECK_THAT(changes, !ContainsSubstring("+0.00") && !ContainsSubstring("0.00 GiB"));
  CHECK_THAT(changes, !ContainsSubstring(" -") && ContainsSubstring("−1023.50 KiB"));
}

TEST_CASE("the page of a trace says why a stream could reuse another stream's memory") {
  using namespace millrace::cli;
  const ScratchFolder scratch;
  Script script;
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  script.writer->reserved(0, kTraced, 60 * MiB);
  const auto block = [&](std::uint32_t stream, std::uint64_t at) {
    return script.writer->allocated(
        {.stream = stream, .address = kTraced + at * MiB, .bytes = 10 * MiB});
  };
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 5; ++i) blocks.push_back(block(main, 10 * i));
  for (std::size_t i = 0; i < 3; ++i) script.writer->freed(blocks[i], main);
  script.writer->marked(main, 1);
  script.writer->freed(blocks[3], main);
  script.writer->freed(blocks[4], main);
  static_cast<void>(block(main, 0));
  script.writer->waited(copy, main, 1);
  block(copy, 10);  // freed earlier than the marker
  block(copy, 30);  // freed after the marker
  script.writer->completed(blocks[2]);
  block(copy, 20);
  script.writer->passed_stream(main);
  block(copy, 40);
  const PageRun run =
      page_data_of(explain_file(file_of(scratch, script), Replays::none), nullptr).runs.at(0);
  std::vector<PageReuse> found;
  for (std::size_t i = 5; i < run.blocks.size(); ++i) found.push_back(run.blocks[i].reuse);
  CHECK(found == std::vector<PageReuse>{PageReuse::same_stream, PageReuse::ordered,
                                        PageReuse::unknown, PageReuse::completed,
                                        PageReuse::completed});
  REQUIRE(run.arrows.size() == 1);
  CHECK(run.blocks[6].wait == 0);
  CHECK(run.blocks[7].wait == kUnknown);
  CHECK(run.arrows[0].from_stream == main);
  CHECK(run.arrows[0].to_stream == copy);
  CHECK(run.arrows[0].from <= run.arrows[0].to);
}
