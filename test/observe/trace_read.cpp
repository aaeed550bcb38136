#include <filesystem>
#include <fstream>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/gzip.hpp"
#include "test/support/pickle_writer.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::gzipped;
using millrace::test::refusal;
using millrace::test::refusal_of;
using namespace millrace::trace;

const std::string some_lifetimes = "id,lower,upper,size\n0,0,5,10\n1,2,8,30\n";
const std::string an_rmm_log =
    "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00,allocate,0x1000,512,0\n";
const std::string a_snapshot =
    R"({"segments": [], "device_traces": [[{"action": "alloc", "addr": 512, "size": 9, "stream": 0}]]})";

}  // namespace

TEST_CASE("the format of a trace is recognized by its content") {
  CHECK(parse_trace(some_lifetimes, "x").format == TraceFormat::lifetimes);
  CHECK(parse_trace(an_rmm_log, "x").format == TraceFormat::rmm_log);
  CHECK(parse_trace(a_snapshot, "x").format == TraceFormat::torch_snapshot);
  CHECK(parse_trace(millrace::test::to_pickle(nlohmann::json::parse(a_snapshot)), "x").format ==
        TraceFormat::torch_snapshot);
}

TEST_CASE("each format says which properties its traces have") {
  struct Has {
    TraceFormat format;
    bool order, lines, addresses, clock;
  };
  const auto has = GENERATE(Has{TraceFormat::torch_snapshot, false, false, true, true},
                            Has{TraceFormat::rmm_log, false, true, true, true},
                            Has{TraceFormat::lifetimes, false, true, false, false},
                            Has{TraceFormat::millrace, true, false, true, true});
  CAPTURE(to_string(has.format));
  CHECK(knows_order(has.format) == has.order);
  CHECK(has_lines(has.format) == has.lines);
  CHECK(has_addresses(has.format) == has.addresses);
  CHECK(has_clock(has.format) == has.clock);
}

TEST_CASE("a snapshot gives the same log as a pickle and as JSON") {
  const auto from_json = parse_trace(a_snapshot, "x");
  const auto from_pickle =
      parse_trace(millrace::test::to_pickle(nlohmann::json::parse(a_snapshot)), "x");
  CHECK(from_json.snapshot->traces == from_pickle.snapshot->traces);
  CHECK(from_json.blocks.size() == 1);
  CHECK(from_json.warnings == from_pickle.warnings);
}

TEST_CASE("every format may be gzipped, also in several members") {
  CHECK(parse_trace(gzipped(some_lifetimes), "x").blocks.size() == 2);
  CHECK(parse_trace(gzipped(an_rmm_log), "x").blocks.size() == 1);
  CHECK(parse_trace(gzipped(a_snapshot), "x").blocks.size() == 1);
  CHECK(parse_trace(gzipped(some_lifetimes.substr(0, 25)) + gzipped(some_lifetimes.substr(25)), "x")
            .blocks.size() == 2);
}

TEST_CASE("gzip that is cut short at any byte is refused") {
  const std::string whole = gzipped(some_lifetimes);
  for (std::size_t length = 2; length < whole.size(); ++length) {
    INFO("cut to " << length << " of " << whole.size() << " bytes");
    CHECK_THAT(refusal_of(whole.substr(0, length)), ContainsSubstring("the file seems cut short"));
  }
}

TEST_CASE("gzip that is damaged or followed by something else is refused") {
  std::string damaged = gzipped(some_lifetimes);
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  CHECK_THAT(refusal_of(damaged), ContainsSubstring("damaged gzip data"));
  CHECK_THAT(refusal_of(gzipped(some_lifetimes) + "more"), ContainsSubstring("damaged gzip data"));
}

TEST_CASE("gzip that inflates beyond the limit is refused while it inflates") {
  TraceLimits limits;
  limits.max_inflated_bytes = 1 << 20;
  const std::string bomb = gzipped(some_lifetimes + std::string(50 << 20, '\n'));
  CHECK(bomb.size() < (1 << 20));
  CHECK_THAT(refusal([&] { return parse_trace(bomb, "file", limits); }),
             ContainsSubstring("inflates to more than the 1048576 bytes that are allowed"));
}

TEST_CASE("an unknown format is refused with a list of the known formats") {
  CHECK_THAT(refusal_of("root:x:0:0\n"),
             ContainsSubstring("line 1: 'root:x:0:0' is not the beginning of a known format "
                               "(expected a PyTorch memory snapshot"));
  CHECK_THAT(refusal_of(std::string("\x7f"
                                    "ELF\0\0\1",
                                    7)),
             ContainsSubstring("is a binary file of another format"));
  CHECK_THAT(refusal_of("PK\x03\x04rest"),
             ContainsSubstring("a zip archive; torch.save writes those"));
  CHECK(refusal_of("") == "file: the file is empty");
  CHECK(refusal_of("\n\n") == "file: the file is empty");
  CHECK_THAT(refusal_of("(dp0\n."), ContainsSubstring("'(dp0' is not the beginning"));
}

TEST_CASE("a file that is missing, a folder or too large is refused by name") {
  const auto folder = std::filesystem::temp_directory_path();
  const auto refused = [](const std::filesystem::path& file, const TraceLimits& limits = {}) {
    return refusal([&] { return read_trace(file, limits); });
  };
  CHECK(refused(folder / "millrace-no-such-file") ==
        (folder / "millrace-no-such-file").string() +
            ": cannot be opened: No such file or directory");
  CHECK(refused(folder) == folder.string() + ": is a folder, not a file");

  const auto file = folder / "millrace-trace-read-test.csv";
  std::ofstream{file} << some_lifetimes;
  TraceLimits limits;
  CHECK(refused(file, limits).empty());
  limits.max_file_bytes = 10;
  CHECK(refused(file, limits) == file.string() + ": is larger than the 10 bytes that are allowed");
  std::filesystem::remove(file);
}

TEST_CASE("every trace of the sample data is read without a warning") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{*data / "traces"}) {
    if (entry.path().extension() != ".csv" && entry.path().extension() != ".pickle") continue;
    INFO(entry.path());
    const auto log = read_trace(entry.path());
    CHECK(log.warnings.empty());
    CHECK_FALSE(log.blocks.empty());
    ++files;
  }
  CHECK(files >= 10);
}
