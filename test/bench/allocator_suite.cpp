#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/child_process.hpp"
#include "test/support/temporary_folder.hpp"

using namespace millrace::test;
using Json = nlohmann::json;

namespace {

struct Ended {
  int code = -1;
  std::string output;  ///< standard output and errors
};

Ended run(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) {
    ended.output.append(part.data(), got);
  }
  ended.code = WEXITSTATUS(::pclose(pipe));
  return ended;
}

Ended run_suite(const std::string& options) {
  return run(std::string{MILLRACE_BENCH_ALLOCATOR} + " " + options);
}

std::string run_table(const std::string& arguments) {
  return "'" + find_program("python3") + "' '" MILLRACE_BENCH_TABLE "' " + arguments;
}

/// A case with its subject, such as "random/1k-live/cub".
std::string name_of(const Json& row) {
  return row["suite"].get<std::string>() + "/" + row["case"].get<std::string>() + "/" +
         row["subject"].get<std::string>();
}

/// The smallest run, made once for all tests.
const Json& smoke() {
  static const Json document = [] {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "results.json";
    const Ended ended = run_suite("--scale smoke --data '' --json " + file.string());
    INFO(ended.output);
    REQUIRE(ended.code == 0);
    std::ifstream in{file};
    return Json::parse(in);
  }();
  return document;
}

const Json& row(const std::string& name) {
  for (const Json& each : smoke()["rows"]) {
    if (name_of(each) == name) return each;
  }
  FAIL("there is no row " << name);
  throw std::logic_error{"not reached"};
}

bool is_left_out(const std::string& suite, const std::string& of, const std::string& subject) {
  for (const Json& out : smoke()["left_out"]) {
    REQUIRE(!out["why"].get<std::string>().empty());
    const std::string where = out["suite"], what = out["name"];
    const bool whole_subject = where.empty() && what == subject;
    const bool whole_case = where == suite && what == of;
    const bool in_suite = where == suite && what == subject;
    const bool in_case = where == suite + "/" + of;
    if (whole_subject || whole_case || in_suite || in_case) return true;
  }
  return false;
}

void every_case_has_a_row_or_a_reason() {
  std::set<std::string> there;
  for (const Json& each : smoke()["rows"]) {
    INFO(name_of(each));
    CHECK(there.insert(name_of(each)).second);
  }
  std::istringstream names{run_suite("--list --data ''").output};
  std::size_t listed = 0;
  std::set<std::string> suites;
  for (std::string name; std::getline(names, name); ++listed) {
    const std::size_t first = name.find('/'), last = name.rfind('/');
    suites.insert(name.substr(0, first));
    INFO(name);
    CHECK((there.contains(name) ||
           is_left_out(name.substr(0, first), name.substr(first + 1, last - first - 1),
                       name.substr(last + 1))));
  }
  CHECK(listed > 300);
  CHECK(suites == std::set<std::string>{"one-size", "streams", "uses", "random", "threads", "cold",
                                        "churn", "training", "cliffs"});
  CHECK(is_left_out("traces", "", ""));  // no folder was given
}

void each_row_has_every_field() {
  for (const Json& each : smoke()["rows"]) {
    INFO(each.dump());
    for (const char* const text : {"suite", "case", "subject", "unit"}) {
      CHECK(!each.at(text).get<std::string>().empty());
    }
    for (const char* const figure :
         {"ns_per_pair", "wall_ns_per_pair", "device_calls_per_pair", "modeled_call_ns_per_pair",
          "reserved_over_live", "host_bytes_per_block"}) {
      CHECK((each.at(figure).is_null() || each.at(figure).is_number()));
    }
    if (each["given_up"].is_null()) {
      CHECK(each["ns_per_pair"].get<double>() > 0);
      CHECK(each["pairs"].get<double>() > 0);
    } else {
      CHECK(each["given_up"].at("why").get<std::string>().starts_with("more than"));
      CHECK(each["given_up"].at("reached").is_number());
    }
  }
  for (const char* const key :
       {"date", "device", "cpu", "cores", "commit", "compiler", "command", "seeds"}) {
    INFO(key);
    CHECK(smoke().contains(key));
  }
}

void calls_and_bytes_are_those_by_hand() {
  // Memory that was freed on the stream is given out again without a driver call.
  for (const char* const subject : {"millrace", "millrace-no-ranges", "torch", "mutex-floor"}) {
    INFO(subject);
    CHECK(row(std::string{"one-size/4KiB/"} + subject)["device_calls_per_pair"] == 0);
    CHECK(row(std::string{"streams/4-in-turn/"} + subject)["device_calls_per_pair"] == 0);
  }
  // It has a stack of blocks per power of two, so 4 MiB take 4 MiB.
  CHECK(row("one-size/4MiB/mutex-floor")["reserved_over_live"] == 1);
  // A mapped page or a segment of 2 MiB holds one block of 4 KiB.
  CHECK(row("one-size/4KiB/torch")["reserved_over_live"] == 512);
  // Millrace records an event once for each block that another stream used.
  CHECK(row("uses/none/millrace")["device_calls_per_pair"] == 0);
  CHECK(row("uses/a-quarter/millrace")["device_calls_per_pair"].get<double>() >= 0.2);
}

void cub_and_thrust_call_the_runtime_of_the_benchmark() {
  CHECK(is_left_out("", "", "cub") != MILLRACE_BENCH_CCCL);
  if (!MILLRACE_BENCH_CCCL) return;
  // CUB records an event at each free. For a quarter of the pairs, the program records and waits.
  CHECK(row("one-size/4KiB/cub")["device_calls_per_pair"] == 1);
  CHECK(row("uses/none/cub")["device_calls_per_pair"] == 1);
  CHECK(row("uses/a-quarter/cub")["device_calls_per_pair"].get<double>() ==
        Approx(1.5).epsilon(0.05));
  // CUB's sizes are powers of two from 512 bytes.
  CHECK(row("one-size/4KiB/cub")["reserved_over_live"] == 1);
  CHECK(row("one-size/4MiB/thrust-pool")["device_calls_per_pair"] == 0);
  // Thrust's pool knows no streams, so the program waits for the stream before each free.
  CHECK(row("streams/4-in-turn/thrust-pool")["device_calls_per_pair"] == 1);
}

}  // namespace

// One run serves all sections.
TEST_CASE("bench_allocator: a run has a row or a reason for each case, with correct figures") {
  SECTION("every case has a row for every subject, or the reason why it has none") {
    every_case_has_a_row_or_a_reason();
  }
  SECTION("each row has every field, and each field a figure or the reason why it has none") {
    each_row_has_every_field();
  }
  SECTION("driver calls and bytes agree with a count by hand") {
    calls_and_bytes_are_those_by_hand();
  }
  SECTION("CUB and Thrust call the runtime of the benchmark") {
    cub_and_thrust_call_the_runtime_of_the_benchmark();
  }
}

TEST_CASE("bench_allocator: an invalid option is refused at once with exit code 2") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"--filter '('", "not a regular expression"},
      {"--filter nothing/of/it", "matches"},
      {"--scale huge", "right: default"},
      {"--device gpu", "right: null"},
      {"--quick", "--quick"},
      {"--repetitions 0", "right: 1"},
      {"--color", "--color"},
      {"--json /no/such/folder/file", "right:"}};
  for (const auto& [options, text] : wrong) {
    const bool scaled = options.starts_with("--scale");
    const Ended ended = run_suite((scaled ? "" : "--scale smoke ") + options);
    INFO(options << '\n' << ended.output);
    CHECK(ended.code == 2);
    CHECK(ended.output.find(text) != std::string::npos);
    CHECK(std::ranges::count(ended.output, '\n') <= 2);
  }
}

TEST_CASE("bench_allocator: the table has the cases of its file, and refuses invalid files") {
  if (find_program("python3").empty()) SKIP("no python3");
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "results.json").string();
  const std::string picture = (folder.path() / "picture.svg").string();
  std::ofstream{file} << smoke().dump();

  const Ended one = run(run_table(file + " --svg " + picture));
  INFO(one.output);
  REQUIRE(one.code == 0);
  CHECK(one.output.find("| one-size/4KiB |") != std::string::npos);
  CHECK(one.output.find("| growing, 1,000 |") != std::string::npos);
  std::stringstream svg;
  svg << std::ifstream{picture}.rdbuf();
  CHECK(svg.str().find("one-size/4KiB</text>") != std::string::npos);

  Json slower = smoke();
  for (Json& each : slower["rows"]) {
    if (each["ns_per_pair"].is_number()) {
      each["ns_per_pair"] = 3 * each["ns_per_pair"].get<double>();
    }
  }
  const std::string before = (folder.path() / "before.json").string();
  std::ofstream{before} << slower.dump();
  const Ended two = run(run_table(before + " " + file));
  INFO(two.output);
  REQUIRE(two.code == 0);
  CHECK(two.output.find("| 3.00 |") != std::string::npos);

  Json broken = smoke();
  broken["rows"][0].erase("given_up");
  std::ofstream{before} << broken.dump();
  for (const std::string& bad : {before, picture, folder.path().string() + "/absent"}) {
    const Ended refused = run(run_table(bad));
    INFO(refused.output);
    CHECK(refused.code == 2);
    CHECK(refused.output.find("right:") != std::string::npos);
    CHECK(std::ranges::count(refused.output, '\n') == 1);
  }
}
