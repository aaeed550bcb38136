#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"
#include "test/support/sizes.hpp"
#include "test/tools/page_reader.hpp"
#include "test/tools/program.hpp"
#include "test/tools/rmm_log.hpp"

using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr std::uint64_t kMain = std::uint64_t{1} << 40;
constexpr std::uint64_t kSide = kMain + 4096 * MiB;

json event(const char* action, std::uint64_t address, std::uint64_t bytes, std::int64_t stream) {
  return {{"action", action},
          {"addr", address},
          {"size", bytes},
          {"stream", stream},
          {"frames", json::array({{{"filename", "/home/me/train.py"},
                                   {"line", stream == 0 ? 10 : 20},
                                   {"name", stream == 0 ? "forward" : "prefetch"}}})}};
}

void allocate(json& trace, std::uint64_t address, std::uint64_t bytes, std::int64_t stream) {
  trace.push_back(event("segment_alloc", address, bytes, stream));
  trace.push_back(event("alloc", address, bytes, stream));
}

void free(json& trace, std::uint64_t address, std::uint64_t bytes, std::int64_t stream) {
  trace.push_back(event("free_requested", address, bytes, stream));
  trace.push_back(event("free_completed", address, bytes, stream));
}

/// A side stream leaves `stranded` free bytes, which the default stream cannot use.
json snapshot(std::uint64_t stranded, const json& settings = json::object()) {
  json trace = json::array();
  allocate(trace, kSide, stranded, 7);
  free(trace, kSide, stranded, 7);
  allocate(trace, kMain, 100 * MiB, 0);
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i]["time_us"] = 10 * i;
  const auto segment = [](std::uint64_t address, std::uint64_t bytes, int stream,
                          const char* state) {
    return json{{"device", 0},
                {"address", address},
                {"total_size", bytes},
                {"stream", stream},
                {"segment_type", "large"},
                {"blocks", json::array({{{"address", address},
                                         {"size", bytes},
                                         {"requested_size", bytes},
                                         {"state", state}}})}};
  };
  return {{"segments", json::array({segment(kMain, 100 * MiB, 0, "active_allocated"),
                                    segment(kSide, stranded, 7, "inactive")})},
          {"device_traces", json::array({trace})},
          {"allocator_settings", settings}};
}

std::string file_of(const ScratchFolder& scratch, const std::string& name, const json& data) {
  return scratch.write(name, to_pickle(data)).string();
}

std::uint64_t sum_of(const json& moment) {
  std::uint64_t sum = moment.at("further_shares_bytes");
  for (const json& share : moment.at("shares")) sum += share.at("bytes").get<std::uint64_t>();
  return sum;
}

}  // namespace

TEST_CASE("explain names memory stranded on another stream, its site and the best change") {
  const ScratchFolder scratch;
  const std::string file = file_of(scratch, "s.pickle", snapshot(150 * MiB));
  const json document = document_of({"explain", file});
  CHECK(document.at("schema") == "millrace.explain/1");
  const json& device = document.at("files").at(0).at("devices").at(0);
  const json& peak = device.at("peak");
  CHECK(peak.at("reserved_bytes") == 250 * MiB);
  CHECK(sum_of(peak) == 250 * MiB);
  CHECK(peak.at("parts").at("live") == 100 * MiB);
  CHECK(peak.at("parts").at("stream") == 150 * MiB);
  CHECK(peak.at("event").at("position") == 5);
  CHECK(peak.at("asker").at("requested_bytes") == 100 * MiB);
  const auto stranded = std::ranges::find_if(
      peak.at("shares"), [](const json& share) { return share.at("part") == "stream"; });
  REQUIRE(stranded != peak.at("shares").end());
  CHECK(stranded->at("site") == "prefetch (train.py:20)");
  CHECK(stranded->at("stream") == "stream 0x7");
  CHECK(stranded->at("last").at("position") == 3);
  CHECK(stranded->at("whole_segments") == true);
  CHECK(device.at("most_live_bytes") == 150 * MiB);

  // With one stream, or one allocator for both, the default stream uses the memory again.
  REQUIRE_FALSE(device.at("advice").empty());
  CHECK(device.at("advice").at(0).at("saved_bytes") == 100 * MiB);
  CHECK(device.at("advice").at(0).at("at_most") == false);
  for (const json& row : device.at("what_if")) {
    if (row.at("allocator") != "torch") continue;
    const std::uint64_t expected = row.at("change") == "one stream" ? 150 * MiB : 250 * MiB;
    CHECK(row.at("reserved_bytes") == expected);
  }
}

TEST_CASE("the first screen of explain fits into 80 columns, however long the names") {
  const ScratchFolder scratch;
  json long_names = snapshot(150 * MiB);
  for (json& entry : long_names["device_traces"][0]) {
    entry["frames"][0]["name"] = std::string(100, 'f') + "ünction";
  }
  const std::string file = file_of(scratch, "s.pickle", long_names);
  const ProgramRun run = run_program({"explain", file});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  std::istringstream lines{run.out};
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto is_begin = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
    const bool names_file = line.find(file) != std::string::npos;
    CHECK((std::ranges::count_if(line, is_begin) <= 80 || names_file));
  }
  CHECK(count <= 50);
  CHECK_THAT(run.out, ContainsSubstring("250.00 MiB reserved for 100.00 MiB live") &&
                          ContainsSubstring("saves most: 100.00 MiB"));
}

TEST_CASE("explain gives no advice that is already followed") {
  const ScratchFolder scratch;
  // A block of 90 MiB is freed, then 200 MiB are requested. With expandable segments the block's
  // segment could grow, unless another block follows it.
  const auto grown = [](std::uint64_t behind) {
    json data = snapshot(150 * MiB);
    json trace = json::array();
    trace.push_back(event("segment_alloc", kMain, 90 * MiB + behind, 0));
    trace.push_back(event("alloc", kMain, 90 * MiB, 0));
    if (behind != 0) trace.push_back(event("alloc", kMain + 90 * MiB, behind, 0));
    free(trace, kMain, 90 * MiB, 0);
    allocate(trace, kMain + 1024 * MiB, 200 * MiB, 0);
    data["device_traces"] = json::array({trace});
    data["segments"] = json::array();
    return data;
  };
  const auto advises = [&](const json& data) {
    const json document = document_of({"explain", file_of(scratch, "s.pickle", data)});
    std::string all;
    for (const json& advice : document.at("files").at(0).at("devices").at(0).at("advice")) {
      all += advice.at("change").get<std::string>() + '\n';
    }
    return all;
  };
  CHECK_THAT(advises(grown(0)), ContainsSubstring("expandable_segments:True"));
  CHECK_THAT(advises(grown(10 * MiB)), !ContainsSubstring("expandable_segments:True"));
  json followed = grown(0);
  followed["allocator_settings"] = {{"expandable_segments", true}};
  CHECK_THAT(advises(followed), !ContainsSubstring("expandable_segments:True"));
  CHECK_THAT(advises(snapshot(150 * MiB)), !ContainsSubstring("roundup_power2_divisions"));
}

TEST_CASE("explain --against shows the growth since another file, to the byte") {
  const ScratchFolder scratch;
  const std::string before = file_of(scratch, "before.pickle", snapshot(50 * MiB));
  const std::string after = file_of(scratch, "after.pickle", snapshot(150 * MiB));
  const json document = document_of({"explain", after, "--against", before});
  CHECK(document.at("files").size() == 2);
  const json& change = document.at("changes").at(0);
  CHECK(change.at("first_bytes") == 150 * MiB);
  CHECK(change.at("second_bytes") == 250 * MiB);
  REQUIRE(change.at("rows").size() == 1);
  CHECK(change.at("rows").at(0).at("change_bytes") == 100 * MiB);
  CHECK(change.at("rows").at(0).at("part") == "stream");
  CHECK(change.at("rows").at(0).at("site") == "prefetch (train.py)");
  CHECK_THAT(
      run_program({"explain", after, "--against", before}).out,
      ContainsSubstring("reserved from 150.00 to 250.00 MiB") && ContainsSubstring("+100.00"));
}

TEST_CASE("explain says why a request failed and what size would have fit") {
  const ScratchFolder scratch;
  json failed = snapshot(150 * MiB);
  failed["device_traces"][0].push_back({{"action", "oom"},
                                        {"device_free", 30 * MiB},
                                        {"size", 100 * MiB},
                                        {"stream", 0},
                                        {"time_us", 100}});
  const std::string file = file_of(scratch, "oom.pickle", failed);
  const json device = document_of({"explain", file}).at("files").at(0).at("devices").at(0);
  const json& failure = device.at("out_of_memory");
  CHECK(failure.at("reason") == "stream");
  CHECK(failure.at("requested_bytes") == 100 * MiB);
  CHECK(failure.at("would_fit_bytes") == 30 * MiB);
  CHECK(failure.at("largest_of_other_stream").at("bytes") == 150 * MiB);
  CHECK(sum_of(failure.at("memory")) == failure.at("memory").at("reserved_bytes"));
  CHECK_THAT(failure.at("sentences").dump(), ContainsSubstring("belongs to the stream 0x7") &&
                                                 ContainsSubstring("at least 30.00 MiB"));
  CHECK_THAT(run_program({"explain", file}).out, ContainsSubstring("out of memory at event 6"));
}

TEST_CASE("explain does not show values that a log lacks as 0") {
  const ScratchFolder scratch;
  const std::string rmm = scratch.write("rmm.csv", kFailingRmmLog).string();
  const json device = document_of({"explain", rmm}).at("files").at(0).at("devices").at(0);
  CHECK(device.at("peak").at("reserved_bytes").is_null());
  CHECK(device.at("peak").at("parts").at("hard").is_null());
  CHECK(device.at("peak").at("parts").at("live") == 4096);
  CHECK(device.at("out_of_memory").at("reason") == "unknown");
  CHECK(device.at("out_of_memory").at("device_free_bytes").is_null());
  CHECK(device.at("advice").empty());
  CHECK_THAT(run_program({"explain", rmm}).out,
             ContainsSubstring("what was reserved is not in this log") &&
                 ContainsSubstring("what would have fitted: not known"));
  const json none = document_of({"explain", rmm, "--replay", "none"});
  CHECK(none.at("files").at(0).at("devices").at(0).at("what_if").empty());
  CHECK_THAT(none.at("files").at(0).at("devices").at(0).at("left_out").get<std::string>(),
             ContainsSubstring("--replay none"));
}

TEST_CASE("explain refuses files that are not traces, and invalid options") {
  const ScratchFolder scratch;
  const std::string text = scratch.write("text.xyz", "hello\n").string();
  const std::string good = file_of(scratch, "s.pickle", snapshot(50 * MiB));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"explain", text},
                                                    {"explain", good, "--against", text},
                                                    {"explain", good, "--replay", "some"},
                                                    {"explain", good, "-o", good},
                                                    {"explain"}}) {
    const ProgramRun run = run_program(arguments);
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring("millrace explain: "));
  }
}

TEST_CASE("the page of explain has the parts, the peak and the figures of its JSON") {
  const ScratchFolder scratch;
  const std::string file = file_of(scratch, "s.pickle", snapshot(150 * MiB));
  const std::filesystem::path page = scratch.path() / "page.html";
  const ProgramRun run = run_program({"explain", file, "--html", page.string()});
  INFO(run.err);
  if (run.err.find("built without the page's viewer") != std::string::npos) SKIP("no esbuild");
  REQUIRE(run.exit_code == 0);
  const json shown = page_header(read_file(page)).at("runs").at(0);
  CHECK(shown.at("events") == 6);
  const json device = document_of({"explain", file}).at("files").at(0).at("devices").at(0);
  for (const json& row : shown.at("tables").at(0).at("rows")) {
    CHECK(row.at("bytes") == device.at("peak").at("parts").at(row.at("label")));
  }
  const auto levels = shown.at("tables").at(1);
  CHECK(levels.at("cumulative") == true);
  CHECK(levels.at("rows").back().at("bytes") == device.at("ladder").at("levels").at("reserved"));
  for (const json& expected : device.at("what_if")) {
    const auto& rows = shown.at("tables").at(2).at("rows");
    CHECK(std::ranges::any_of(
        rows, [&](const json& row) { return row.at("bytes") == expected.at("reserved_bytes"); }));
  }
}
