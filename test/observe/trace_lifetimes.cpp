#include <string>

#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"

namespace {

using millrace::test::refusal_of;
using namespace millrace::trace;

const std::string lifetimes_header = "id,lower,upper,size\n";

std::string refused_lifetimes(const std::string& rows) {
  return refusal_of(lifetimes_header + rows);
}

}  // namespace

TEST_CASE("lifetimes become allocations and frees in order of time") {
  const auto log = parse_trace(lifetimes_header + "b,3,9,200\na,0,3,100\n", "file");
  CHECK(log.format == TraceFormat::lifetimes);
  CHECK_FALSE(log.has_addresses());
  REQUIRE(log.blocks.size() == 2);
  CHECK(log.blocks[0].bytes == 200);
  std::vector<std::pair<EventKind, std::uint32_t>> order;
  for (const LogEvent& event : log.events) order.emplace_back(event.kind, event.block);
  CHECK(order == std::vector<std::pair<EventKind, std::uint32_t>>{{EventKind::allocate, 1},
                                                                  {EventKind::free_requested, 1},
                                                                  {EventKind::allocate, 0},
                                                                  {EventKind::free_requested, 0}});
  CHECK(log.events[2].time_us == 3);
  CHECK(log.events[2].position == 2);
}

TEST_CASE("a life that ends when another begins does not overlap it") {
  const auto log = parse_trace(lifetimes_header + "0,0,5,10\n1,5,8,10\n", "file");
  CHECK(millrace::max_load(lifetimes(log)) == 10);
}

TEST_CASE("older column names are known, and their end is the last moment of a lifetime") {
  const auto log = parse_trace("buffer,start,end,size\n7,0,4,10\n8,5,5,10\n", "file");
  REQUIRE(log.events.size() == 4);
  CHECK(log.events[1].kind == EventKind::free_requested);
  CHECK(log.events[1].time_us == 5);
}

TEST_CASE("columns may stand in any order, and known extra ones are ignored") {
  const auto log = parse_trace("size,alignment,upper,lower,id\n64,8,4,1,x\n", "file");
  CHECK(log.blocks[0].bytes == 64);
  CHECK(log.events[0].time_us == 1);
  CHECK(log.warnings == std::vector<std::string>{"a column is passed over ('alignment')"});
}

TEST_CASE("a malformed line of lifetimes is refused with the expected form") {
  CHECK(refused_lifetimes("0,5,5,10\n") ==
        "file: line 2: lives from 5 to 5, should begin before it ends");
  CHECK(refused_lifetimes("0,6,5,10\n") ==
        "file: line 2: lives from 6 to 5, should begin before it ends");
  CHECK(refused_lifetimes("0,0,5,-10\n") == "file: line 2: size is '-10', should not be negative");
  CHECK(refused_lifetimes("0,0,5,10\n\n0,6,7,8\n") ==
        "file: line 4: id '0' was already used in line 2");
  CHECK(refused_lifetimes("0,zero,5,10\n") ==
        "file: line 2: lower is 'zero', should be a number of 64 bits");
  CHECK(refused_lifetimes("0,0,5\n") ==
        "file: line 2: has 3 columns where the header has 4; the file seems cut short");
  CHECK(refused_lifetimes("0,0,9223372036854775807,1\n") ==
        "file: line 2: upper is 9223372036854775807, beyond 62 bits");
  CHECK(refused_lifetimes("0,0,5,4000000000000000000\n1,0,5,4000000000000000000\n") ==
        "file: line 3: the sizes add up to more than 62 bits");
}

TEST_CASE("lifetimes without a column for the id are refused") {
  CHECK(refusal_of("name,lower,upper,size\n0,0,1,2\n") ==
        "file: line 1: the header has no column 'id'");
}
