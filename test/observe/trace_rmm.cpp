#include <string>

#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::refusal_of;
using namespace millrace::trace;

const std::string header_line = "Thread,Time,Action,Pointer,Size,Stream\n";

AllocationLog read_rmm(const std::string& rows) { return parse_trace(header_line + rows, "file"); }
std::string refused_rmm(const std::string& rows) { return refusal_of(header_line + rows); }

}  // namespace

TEST_CASE("a log of RMM gives its allocations, frees and failures") {
  const auto log = read_rmm(
      "2342727,15:47:02.841961,allocate,0x10012400000,1048576,0x7f8a38001020\n"
      "2342727,15:47:02.841977,allocate failure,(nil),999,0\n"
      "2342728,15:47:03.000000,free,0x10012400000,1048576,0x7f8a38001020\n");
  CHECK(log.format == TraceFormat::rmm_log);
  CHECK(log.has_addresses());
  CHECK(log.warnings.empty());
  REQUIRE(log.blocks.size() == 1);
  CHECK(log.blocks[0].address == 0x10012400000);
  CHECK(log.blocks[0].bytes == 1048576);
  CHECK(log.streams[log.blocks[0].stream].handle == 0x7f8a38001020);
  REQUIRE(log.events.size() == 3);
  CHECK(log.events[0].kind == EventKind::allocate);
  CHECK(log.events[0].time_us == 56822841961);
  CHECK(log.events[1].kind == EventKind::out_of_memory);
  CHECK(log.events[1].bytes == 999);
  CHECK(log.events[2].kind == EventKind::free_requested);
  CHECK(log.events[2].block == 0);
  CHECK(log.events[2].position == 4);
}

TEST_CASE("streams are hexadecimal with or without 0x, as the versions of RMM write them") {
  const auto log = read_rmm(
      "1,00:00:00.1,allocate,7f0000000000,512,7f8a38001020\n"
      "1,00:00:00.2,allocate,0x7f0000001000,512,0x7f8a38001020\n"
      "1,00:00:00.3,allocate,7f0000002000,512,10\n");
  CHECK(log.blocks[0].address == 0x7f0000000000);
  CHECK(log.blocks[0].stream == log.blocks[1].stream);
  CHECK(log.streams[log.blocks[2].stream].handle == 0x10);
}

TEST_CASE("streams 0 and 1 are the legacy stream, and 2 is one stream for each thread") {
  const auto log = read_rmm(
      "1,00:00:00.1,allocate,0x1000,512,0\n"
      "2,00:00:00.2,allocate,0x2000,512,0x1\n"
      "1,00:00:00.3,allocate,0x3000,512,0x2\n"
      "2,00:00:00.4,allocate,0x4000,512,0x2\n"
      "1,00:00:00.5,free,0x4000,512,0x2\n");
  CHECK(log.blocks[0].stream == log.blocks[1].stream);
  CHECK(log.blocks[2].stream != log.blocks[3].stream);
  CHECK(log.events[4].stream == log.blocks[2].stream);
}

TEST_CASE("columns may stand in another order, and lines end as on Windows") {
  const auto log = parse_trace(
      "Action,Stream,Size,Pointer,Thread,Time\r\nallocate,0x5,64,0x100,1,00:00:01\r\n", "file");
  CHECK(log.blocks[0].bytes == 64);
  CHECK(log.streams[log.blocks[0].stream].handle == 5);
  CHECK(log.events[0].time_us == 1'000'000);
}

TEST_CASE("times continue in a log that runs past midnight") {
  const auto log = read_rmm(
      "1,23:59:59.000000,allocate,0x1000,512,0\n"
      "1,00:00:01.000000,free,0x1000,512,0\n");
  CHECK(log.events[1].time_us - log.events[0].time_us == 2'000'000);
}

TEST_CASE("requests for no bytes, which get no memory, are ignored") {
  const auto log = read_rmm(
      "1,00:00:00,allocate,(nil),0,0\n"
      "1,00:00:00,allocate,0x0,0,0\n"
      "1,00:00:00,free,0x0,0,0\n");
  CHECK(log.blocks.empty());
  CHECK(log.events.empty());
}

TEST_CASE("an address that is allocated again is another block") {
  const auto log = read_rmm(
      "1,00:00:00,allocate,0x1000,512,0\n"
      "1,00:00:00,free,0x1000,512,0\n"
      "1,00:00:00,allocate,0x1000,256,0\n");
  REQUIRE(log.blocks.size() == 2);
  CHECK(log.events[2].block == 1);
  const auto lives = lifetimes(log);
  CHECK(lives[0].lower == 0);
  CHECK(lives[0].upper == 1);
  CHECK(lives[1].lower == 2);
  CHECK(lives[1].upper == 3);
}

TEST_CASE("a block that is freed twice, or was never allocated, is refused with its line") {
  const std::string allocate = "1,00:00:00,allocate,0x1000,512,0\n";
  const std::string free = "1,00:00:00,free,0x1000,512,0\n";
  CHECK(refused_rmm(allocate + free + free) ==
        "file: line 4: frees 0x1000 a second time, after line 3");
  CHECK(refused_rmm(free) == "file: line 2: frees 0x1000, which no line before allocates");
  CHECK(refused_rmm(allocate + free + allocate + free).empty());
}

TEST_CASE("an allocation over a block in use is refused with both lines") {
  const std::string first = "1,00:00:00,allocate,0x1000,512,0\n";
  CHECK(refused_rmm(first + "1,00:00:00,allocate,0x1100,16,0\n") ==
        "file: line 3: allocates 16 bytes at 0x1100, where 512 bytes at 0x1000 of line 2 are still "
        "in use");
  CHECK_FALSE(refused_rmm(first + "1,00:00:00,allocate,0xf00,257,0\n").empty());
  CHECK_FALSE(refused_rmm(first + first).empty());
  CHECK(refused_rmm(first + "1,00:00:00,allocate,0xf00,256,0\n1,00:00:00,allocate,0x1200,8,0\n")
            .empty());
}

TEST_CASE("a free of another size than was allocated gives a warning") {
  const auto log = read_rmm(
      "1,00:00:00,allocate,0x1000,512,0\n"
      "1,00:00:00,free,0x1000,500,0\n");
  CHECK(log.events[1].bytes == 512);
  CHECK(log.warnings ==
        std::vector<std::string>{
            "a free names another size than the allocation, whose size counts (line 3)"});
}

TEST_CASE("a malformed line of an RMM log is refused with the expected form") {
  CHECK(refused_rmm("1,00:00:00,allocate,0x1000,-5,0\n") ==
        "file: line 2: Size is '-5', should not be negative");
  CHECK(refused_rmm("1,00:00:00,allocate,0x1000,99999999999999999999,0\n") ==
        "file: line 2: Size is '99999999999999999999', which does not fit in 64 bits");
  CHECK(refused_rmm("1,00:00:00,allocate,0x1000,5kB,0\n") ==
        "file: line 2: Size is '5kB', should be a number");
  CHECK(refused_rmm("1,00:00:00,allocate,0xfffffffffffffff0,32,0\n") ==
        "file: line 2: 32 bytes at 0xfffffffffffffff0 reach beyond 64 bits");
  CHECK_THAT(refused_rmm("1,00:00:00,allocate,pointer,5,0\n"),
             ContainsSubstring("should be a hexadecimal number"));
  CHECK_THAT(refused_rmm("1,00:00:00,allocate,0x1000,5,stream\n"),
             ContainsSubstring("line 2: Stream is 'stream'"));
  CHECK_THAT(refused_rmm("1,noon,allocate,0x1000,5,0\n"),
             ContainsSubstring("Time is 'noon', should be as"));
  CHECK(refused_rmm("1,00:00:00,realloc,0x1000,5,0\n") ==
        "file: line 2: Action is 'realloc', should be 'allocate', 'free' or 'allocate failure'");
  CHECK(refused_rmm("1,00:00:00,allocate,0x1000,5,0,8\n1") ==
        "file: line 2: has 7 columns where the header has 6");
}

TEST_CASE("a log that ends in the middle of a line is refused") {
  CHECK(refused_rmm("1,00:00:00,allocate,0x1000,5,0\n1,00:00:00,allo") ==
        "file: line 3: has 3 columns where the header has 6; the file seems cut short");
}

TEST_CASE("a log without one of its columns is refused") {
  CHECK(refusal_of("Thread,Time,Action,Pointer,Size\n") ==
        "file: line 1: the header has no column 'Stream'");
  CHECK(refusal_of("Thread,Time,Action,Pointer,Size,Size,Stream\n") ==
        "file: line 1: the header has column 'Size' twice");
}
