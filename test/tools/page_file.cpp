#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "page/page_data.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace::cli;
using Catch::Matchers::ContainsSubstring;
using millrace::test::seed;
using Json = nlohmann::json;

namespace {

std::string written(const PageData& data) {
  std::ostringstream out;
  write_page(data, out);
  return out.str();
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + begin.size());
  REQUIRE(to != std::string::npos);
  return text.substr(from + begin.size(), to - from - begin.size());
}

Json header_of(const std::string& page) {
  return Json::parse(
      between(page, "<script type=\"application/json\" id=\"header\">", "</script>"));
}

std::string from_base64(const std::string& text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(digit));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  return bytes;
}

/// The bytes of a column, as the page has them.
std::string bytes_of(const std::string& page, const Json& column, std::size_t size) {
  const std::string packed = from_base64(between(
      page, "id=\"column-" + std::to_string(column.at("column").get<int>()) + "\">", "</script>"));
  std::string bytes(size, '\0');
  uLongf got = size;
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &got,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  REQUIRE(got == size);
  return bytes;
}

/// The numbers of a column, read as page/columns.hpp says.
std::vector<std::int64_t> numbers_of(const std::string& page, const Json& column) {
  const std::size_t count = column.at("count"), planes = column.at("type") == "u32" ? 4 : 8;
  const std::string bytes = bytes_of(page, column, count * planes);
  std::vector<std::int64_t> values;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t code = 0;
    for (std::size_t plane = 0; plane < planes; ++plane) {
      code |= std::uint64_t{static_cast<unsigned char>(bytes[plane * count + i])} << (8 * plane);
    }
    last += (code >> 1) ^ (~(code & 1) + 1);
    if (planes == 4) last &= UINT32_MAX;
    values.push_back(static_cast<std::int64_t>(last));
  }
  return values;
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
                {4096, 512, 512, 0, 1, 3, kUnknown, kUnknown, kUnknown, 1, 0, PageReuse::waited}};
  run.segments = {{4096, 8192, 0, 1, kUnknown, kUnknown, kUnknown}};
  return run;
}

}  // namespace

TEST_CASE("a page has every number of a run, and keeps the unknown ones apart from 0") {
  const std::string page = written({"title", {small_run()}});
  const Json run = header_of(page).at("runs").at(0);
  const Json& blocks = run.at("blocks");
  const std::int64_t unknown = kUnknown;
  CHECK(numbers_of(page, blocks.at("address")) == std::vector<std::int64_t>{4096, 4096});
  CHECK(numbers_of(page, blocks.at("freed")) == std::vector<std::int64_t>{2, unknown});
  CHECK(numbers_of(page, blocks.at("tag")) == std::vector<std::int64_t>{0, unknown});
  CHECK(numbers_of(page, blocks.at("previous")) == std::vector<std::int64_t>{unknown, 0});
  CHECK(numbers_of(page, run.at("times")) == std::vector<std::int64_t>{0, 0, 2500, 10000});
  CHECK(numbers_of(page, run.at("stacks").at("ends")) == std::vector<std::int64_t>{2, 2});
  const Json& frames = run.at("stacks").at("frames");
  CHECK(Json::parse(bytes_of(page, frames, frames.at("count"))) ==
        Json::parse(R"([["forward", "model.py", 7], ["main", "train.py", 1]])"));

  PageRun unplaced = small_run();
  unplaced.blocks[1].address = kUnknownBytes;
  unplaced.blocks[1].requested = kUnknownBytes;
  const std::string other = written({"title", {unplaced}});
  const Json columns = header_of(other).at("runs").at(0).at("blocks");
  CHECK(numbers_of(other, columns.at("address")) == std::vector<std::int64_t>{4096, -1});
  CHECK(numbers_of(other, columns.at("requested")) == std::vector<std::int64_t>{500, -1});
}

TEST_CASE("columns of a page read back as what was written, for any values") {
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
  const Json columns = header_of(page).at("runs").at(0).at("blocks");
  const auto addresses = numbers_of(page, columns.at("address"));
  const auto bytes = numbers_of(page, columns.at("bytes"));
  const auto freed = numbers_of(page, columns.at("freed"));
  for (std::size_t i = 0; i < run.blocks.size(); ++i) {
    REQUIRE(static_cast<std::uint64_t>(addresses[i]) == run.blocks[i].address);
    REQUIRE(static_cast<std::uint64_t>(bytes[i]) == run.blocks[i].bytes);
    REQUIRE(freed[i] == run.blocks[i].freed);
  }
}

TEST_CASE("no name in a trace is taken for a page's markup") {
  PageRun run = small_run();
  const std::string evil = "</script><script>alert(1)</script><!--\xff";
  run.name = run.tags[0] = run.streams[0].name = run.frames[0].function = evil;
  run.summary = {evil};
  const std::string page = written({evil, {run}}), plain = written({"", {small_run()}});
  const auto scripts = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("<script", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(scripts(page) == scripts(plain));
  CHECK_THAT(page, !ContainsSubstring("alert(1)</script>"));
  CHECK(header_of(page).at("title") == "</script><script>alert(1)</script><!--\xef\xbf\xbd");
}

TEST_CASE("a page needs nothing from a network") {
  const std::string page = written({"title", {small_run()}});
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  CHECK_THAT(page, !ContainsSubstring("src=") && !ContainsSubstring("<link"));
}

TEST_CASE("a page that would show what there is not is refused") {
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
    run.counters = {{PageCounter::Kind::reserved, "", 0, kUnknown, {{2, 1}, {1, 2}}}};
  });
}
