#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "millrace/observe/trace/trace_writer.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/gzip.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/support/seed.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::refusal_of;
using namespace millrace::trace;

/// Keeps a trace in memory, up to `room` bytes.
class StringSink final : public TraceSink {
 public:
  explicit StringSink(std::size_t room = SIZE_MAX) : room_(room) {}
  bool write(std::string_view record) override {
    if (bytes.size() + record.size() > room_) return false;
    bytes += record;
    ends.push_back(bytes.size());
    return true;
  }
  std::string bytes;
  std::vector<std::size_t> ends;  ///< end offsets of the records

 private:
  const std::size_t room_;
};

/// The written data, as a reader must return it.
struct Expected {
  std::vector<LoggedStream> streams;
  std::vector<LoggedBlock> blocks;
  std::vector<LogEvent> events;
  std::vector<LoggedOrder> order;
};

/// A random program that makes only calls that a reader accepts. It writes a trace and keeps the
/// expected result.
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, TraceWriter& writer, std::int64_t& now)
      : random_(seed), writer_(writer), now_(now) {}

  void run(int steps) {
    writer_.program("a random program");
    for (std::uint32_t device = 0; device < 2; ++device) {
      writer_.device(device, std::uint64_t{1} << 34, "GPU");
      for (int i = 0; i < 3; ++i) add_stream(device);
    }
    for (int i = 0; i < steps; ++i) step();
  }

  Expected expected;

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  void add_stream(std::uint32_t device) {
    const LoggedStream stream{.device = device,
                              .handle = random_(),
                              .name = "s" + std::to_string(expected.streams.size()),
                              .legacy = below(2) == 0,
                              .blocking = below(2) == 0,
                              .for_all = below(2) == 0};
    CHECK(writer_.stream(stream) == expected.streams.size());
    expected.streams.push_back(stream);
    marker_.push_back(0);
  }

  LogEvent& event(EventKind kind, std::uint32_t stream) {
    LogEvent event;
    event.kind = kind;
    event.stream = stream;
    event.device = expected.streams[stream].device;
    event.time_us = now_;
    return expected.events.emplace_back(event);
  }

  LoggedOrder& order(OrderKind kind, std::uint32_t stream) {
    return expected.order.emplace_back(LoggedOrder{.kind = kind,
                                                   .device = expected.streams[stream].device,
                                                   .stream = stream,
                                                   .before = expected.events.size(),
                                                   .time_us = now_});
  }

  void allocate() {
    const auto stream = static_cast<std::uint32_t>(below(expected.streams.size()));
    const std::uint64_t bytes = 1 + below(std::uint64_t{1} << 30);
    const std::uint64_t address = next_address_;
    next_address_ += bytes + below(1 << 20);
    const auto inner = writer_.frame({"app.cpp", "f" + std::to_string(below(5)), below(3)});
    const auto stack = writer_.stack(writer_.stack(0, writer_.frame({"app", "main", 0})), inner);
    const auto label = writer_.label(below(2) == 0 ? "" : "weights");
    CHECK(writer_.allocated({stream, address, bytes, stack, label}) == expected.blocks.size());
    LogEvent& made = event(EventKind::allocate, stream);
    made.address = address;
    made.bytes = bytes;
    made.block = static_cast<std::uint32_t>(expected.blocks.size());
    made.stack = stack;
    live_.push_back(made.block);
    const LogEvent block = made;  // a segment gets the stream of its first block
    for (const std::size_t segment : take_unused(block))
      expected.events[segment].stream = block.stream;
    expected.blocks.push_back({.address = address,
                               .bytes = bytes,
                               .device = made.device,
                               .stream = stream,
                               .stack = stack,
                               .label = label});
  }

  std::uint32_t take(std::vector<std::uint32_t>& blocks) {
    const std::size_t at = below(blocks.size());
    const std::uint32_t block = blocks[at];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    return block;
  }

  /// Takes out and returns the segments without a block that overlap this range.
  std::vector<std::size_t> take_unused(const LogEvent& range) {
    std::vector<std::size_t> taken;
    std::erase_if(unused_, [&](std::size_t index) {
      const LogEvent& segment = expected.events[index];
      const bool shares = segment.device == range.device &&
                          segment.address < range.address + range.bytes &&
                          range.address < segment.address + segment.bytes;
      if (shares) taken.push_back(index);
      return shares;
    });
    return taken;
  }

  void end(EventKind kind, std::uint32_t block, std::uint32_t stream) {
    LogEvent& made = event(kind, stream);
    made.device = expected.blocks[block].device;
    made.block = block;
    made.address = expected.blocks[block].address;
    made.bytes = expected.blocks[block].bytes;
  }

  void step() {
    now_ += static_cast<std::int64_t>(below(3) * below(10'000'000));
    const auto stream = static_cast<std::uint32_t>(below(expected.streams.size()));
    switch (below(9)) {
      case 0:
      case 1:
        return allocate();
      case 2:
        if (live_.empty()) return;
        freed_.push_back(take(live_));
        writer_.freed(freed_.back(), stream);
        return end(EventKind::free_requested, freed_.back(), stream);
      case 3: {
        if (freed_.empty()) return;
        const std::uint32_t block = take(freed_);
        writer_.completed(block);
        return end(EventKind::free_completed, block, expected.blocks[block].stream);
      }
      case 4:
        marker_[stream] += 1 + below(1000);
        writer_.marked(stream, marker_[stream]);
        order(OrderKind::marked, stream).marker = marker_[stream];
        return;
      case 5: {
        const auto other = static_cast<std::uint32_t>(below(expected.streams.size()));
        if (marker_[other] == 0) return writer_.waited(stream, other, 1);  // no marker exists
        const std::uint64_t marker = 1 + below(marker_[other]);
        writer_.waited(stream, other, marker);
        LoggedOrder& made = order(OrderKind::waited, stream);
        made.other = other;
        made.marker = marker;
        return;
      }
      case 6:
        writer_.passed_stream(stream);
        order(OrderKind::passed_stream, stream);
        return;
      case 7: {
        const std::uint64_t bytes = 1 + below(1 << 20);
        writer_.reserved(expected.streams[stream].device, next_address_, bytes);
        LogEvent& made = event(EventKind::segment_alloc, 3 * expected.streams[stream].device);
        made.address = next_address_;
        made.bytes = bytes;
        static_cast<void>(take_unused(made));
        unused_.push_back(expected.events.size() - 1);
        return;
      }
      default:
        if (live_.empty()) return;
        writer_.used(live_.front(), stream);
        order(OrderKind::used, stream).block = live_.front();
    }
  }

  std::mt19937_64 random_;
  TraceWriter& writer_;
  std::int64_t& now_;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;
  std::vector<std::uint64_t> marker_;
  std::vector<std::uint32_t> live_, freed_;
  std::vector<std::size_t> unused_;  // events of the segments without a block
};

void check_same_log(const LogEvent& read, const LogEvent& written) {
  CHECK(read.kind == written.kind);
  CHECK(read.device == written.device);
  CHECK(read.stream == written.stream);
  CHECK(read.block == written.block);
  CHECK(read.address == written.address);
  CHECK(read.bytes == written.bytes);
  CHECK(read.time_us == written.time_us);
  CHECK(read.stack == written.stack);
}

void check_same_log(const AllocationLog& read, const Expected& written) {
  CHECK(read.streams == written.streams);
  CHECK(read.order == written.order);
  REQUIRE(read.events.size() == written.events.size());
  for (std::size_t i = 0; i < read.events.size(); ++i)
    check_same_log(read.events[i], written.events[i]);
  REQUIRE(read.blocks.size() == written.blocks.size());
  for (std::size_t i = 0; i < read.blocks.size(); ++i) {
    CHECK(read.blocks[i].address == written.blocks[i].address);
    CHECK(read.blocks[i].bytes == written.blocks[i].bytes);
    CHECK(read.blocks[i].device == written.blocks[i].device);
    CHECK(read.blocks[i].stream == written.blocks[i].stream);
    CHECK(read.blocks[i].stack == written.blocks[i].stack);
    CHECK(read.blocks[i].label == written.blocks[i].label);
  }
}

struct Written {
  Expected expected;
  StringSink sink;
};

void write(Written& written, std::uint64_t seed, int steps) {
  std::int64_t now = 0;
  TraceWriter writer{written.sink, [&now] { return now; }};
  RandomProgram program{seed, writer, now};
  program.run(steps);
  written.expected = std::move(program.expected);
}

/// A trace with one stream, followed by `records`.
std::string small_trace(const std::string& records) {
  StringSink sink;
  TraceWriter writer{sink, [] { return std::int64_t{0}; }};
  static_cast<void>(writer.stream({.name = "main"}));
  writer.allocated({.stream = 0, .address = 0x1000, .bytes = 512});
  return sink.bytes + records;
}

std::string record(char kind, const std::string& payload) {
  return kind + std::string(1, static_cast<char>(payload.size())) + payload;
}

}  // namespace

TEST_CASE("a written trace is read back with the same content") {
  const std::uint64_t seed = millrace::test::seed();
  for (std::uint64_t i = 0; i < 20; ++i) {
    CAPTURE(seed, i);
    Written written;
    write(written, seed + i, 300);
    const AllocationLog log = parse_trace(written.sink.bytes, "file");
    CHECK(log.format == TraceFormat::millrace);
    CHECK(log.warnings.empty());
    CHECK(log.program == "a random program");
    CHECK(log.device_memory == std::vector<std::uint64_t>(2, std::uint64_t{1} << 34));
    check_same_log(log, written.expected);
    for (const LoggedBlock& block : log.blocks) {
      const auto frames = log.stacks.frames_of(block.stack);
      REQUIRE(frames.size() == 2);
      CHECK(log.stacks.at(frames[1]) == StackFrame{"app", "main", 0});
    }
  }
}

/// Returns whether a block was allocated in the segment of event `at`.
bool has_block(const AllocationLog& log, std::size_t at) {
  const LogEvent& segment = log.events[at];
  return std::any_of(log.events.begin() + static_cast<std::ptrdiff_t>(at), log.events.end(),
                     [&](const LogEvent& event) {
                       return event.kind == EventKind::allocate && event.device == segment.device &&
                              event.address < segment.address + segment.bytes &&
                              segment.address < event.address + event.bytes;
                     });
}

TEST_CASE("a trace that is cut off anywhere is read up to its last complete record") {
  Written written;
  write(written, 1, 60);
  const std::string& bytes = written.sink.bytes;
  const AllocationLog whole = parse_trace(bytes, "file");
  std::size_t record = 0;  // index of the record that is cut
  for (std::size_t length = 9; length < bytes.size(); ++length) {
    while (written.sink.ends[record] <= length) ++record;
    std::string cut = bytes.substr(0, length);
    if (length % 2 == 0) {  // like the trace of a killed process
      cut += std::string(100, '\0');
      cut[written.sink.ends[record - 1]] = '\0';
    }
    const AllocationLog log = parse_trace(cut, "file");
    REQUIRE(log.warnings.size() == 1);
    CHECK_THAT(log.warnings[0], ContainsSubstring("no last record"));
    REQUIRE(log.events.size() <= whole.events.size());
    for (std::size_t i = 0; i < log.events.size(); ++i) {
      LogEvent expected = whole.events[i];
      // The stream of a segment is unknown until its first block is allocated.
      if (expected.kind == EventKind::segment_alloc && !has_block(log, i))
        expected.stream = log.events[i].stream;
      check_same_log(log.events[i], expected);
    }
  }
}

TEST_CASE("a writer whose sink is full leaves a readable trace of the earlier events") {
  for (const std::size_t room : {0, 5, 9, 100, 1000, 3000}) {
    StringSink sink{room};
    std::int64_t now = 0;
    std::uint64_t left_out = 0;
    {
      TraceWriter writer{sink, [&now] { return now; }};
      RandomProgram program{1, writer, now};
      program.run(300);
      left_out = writer.left_out();
    }
    CHECK(left_out > 0);
    CHECK(sink.bytes.size() <= room);
    if (room < 9) continue;
    CHECK(parse_trace(sink.bytes, "file").warnings.size() == 1);
  }
}

TEST_CASE("a trace file is complete at every moment, and closing it removes zeros at the end") {
  const millrace::test::ScratchFolder folder;
  const std::string file = (folder.path() / "trace").string();
  StringSink in_memory;
  const auto write_both = [](TraceWriter& writer) {
    const std::uint32_t stream = writer.stream({});
    for (std::uint64_t i = 0; i < 200'000; ++i) {
      writer.allocated({.stream = stream, .address = i << 12, .bytes = 4096});
    }
  };
  const auto contents = [&] {
    std::ifstream in{file, std::ios::binary};
    return std::string{std::istreambuf_iterator<char>{in}, {}};
  };
  {
    TraceWriter expected{in_memory, [] { return std::int64_t{0}; }};
    write_both(expected);
    const auto sink = create_trace_file(file);
    TraceWriter writer{*sink, [] { return std::int64_t{0}; }};
    write_both(writer);
    const std::string so_far = contents();
    CHECK(so_far.substr(0, in_memory.bytes.size()) == in_memory.bytes);
    CHECK(so_far.find_first_not_of('\0', in_memory.bytes.size()) == std::string::npos);
  }
  CHECK(in_memory.bytes.size() > (2U << 20));
  CHECK(contents() == in_memory.bytes);
  CHECK_THROWS_AS(create_trace_file(file), std::system_error);
}

TEST_CASE("memory that is allocated over a block in use ends that block, with a warning") {
  const auto log = parse_trace(
      small_trace(record(16, std::string("\0\0\x80\x20\x40\0\0", 7)) +
                  record(17, std::string("\0\1\0", 3)) + record(127, std::string("\0", 1))),
      "file");
  REQUIRE(log.blocks.size() == 2);
  REQUIRE(log.events.size() == 3);
  CHECK(log.events[1].kind == EventKind::free_requested);
  CHECK(log.events[1].block == 0);
  REQUIRE(log.warnings.size() == 1);
  CHECK_THAT(log.warnings[0], ContainsSubstring("a free was not seen"));
}

TEST_CASE("a reset of a device ends its blocks and its memory") {
  StringSink sink;
  {
    TraceWriter writer{sink, [] { return std::int64_t{0}; }};
    const auto stream = writer.stream({});
    writer.reserved(0, 0x1000, 4096);
    writer.allocated({.stream = stream, .address = 0x1000, .bytes = 512});
    writer.device_reset(0);
    writer.reserved(0, 0x1000, 4096);
    writer.allocated({.stream = stream, .address = 0x1000, .bytes = 512});
  }
  const auto log = parse_trace(sink.bytes, "file");
  CHECK(log.warnings.empty());
  REQUIRE(log.events.size() == 6);
  CHECK(log.events[2].kind == EventKind::free_requested);
  CHECK(log.events[3].kind == EventKind::segment_free);
  CHECK(log.events[3].bytes == 4096);
}

TEST_CASE("queries and events of the driver's pool are steps of the order") {
  StringSink sink;
  {
    TraceWriter writer{sink, [] { return std::int64_t{0}; }};
    const auto stream = writer.stream({});
    writer.pool_keeps(0, UINT64_MAX);
    writer.marked(stream, 1);
    writer.not_passed(stream, 1);
    writer.passed(stream, 1, true);
    writer.passed(stream, 1);
    writer.stream_not_passed(stream);
    writer.passed_stream(stream, true);
    writer.pool_trimmed(0, 4096);
  }
  const auto log = parse_trace(sink.bytes, "file");
  CHECK(log.warnings.empty());
  REQUIRE(log.order.size() == 8);
  CHECK(log.order[0].kind == OrderKind::pool_keeps);
  CHECK(log.order[0].bytes == UINT64_MAX);
  CHECK(log.order[2].kind == OrderKind::not_passed);
  CHECK(log.order[2].marker == 1);
  CHECK(log.order[3].kind == OrderKind::passed);
  CHECK(log.order[3].queried);
  CHECK(!log.order[4].queried);
  CHECK(log.order[5].kind == OrderKind::stream_not_passed);
  CHECK(log.order[6].queried);
  CHECK(log.order[7].kind == OrderKind::pool_trimmed);
  CHECK(log.order[7].bytes == 4096);
}

TEST_CASE("records of unknown kinds are skipped with a warning") {
  const auto log =
      parse_trace(small_trace(record(100, "anything") + record(127, std::string(1, '\0'))), "file");
  CHECK(log.blocks.size() == 1);
  REQUIRE(log.warnings.size() == 1);
  CHECK_THAT(log.warnings[0], ContainsSubstring("does not know"));
}

TEST_CASE("a damaged or hostile Millrace trace is refused with its place") {
  const auto refused = [](char kind, const std::string& payload) {
    return refusal_of(small_trace(record(kind, payload)));
  };
  CHECK_THAT(refused(16, std::string("\0\7\x10\x10\0\0", 6)),
             ContainsSubstring("names a stream 7"));
  CHECK_THAT(refused(16, std::string("\0\0", 2)), ContainsSubstring("ends before an address"));
  CHECK_THAT(refused(16, std::string("\0\0\x10\x10\5\0", 6)), ContainsSubstring("names a stack 5"));
  CHECK_THAT(refused(17, std::string("\0\3\0", 3)), ContainsSubstring("block 3 before the last"));
  CHECK_THAT(
      refusal_of(small_trace(record(17, std::string(3, '\0')) + record(17, std::string(3, '\0')))),
      ContainsSubstring("a second time"));
  CHECK_THAT(refused(18, std::string("\0\0", 2)), ContainsSubstring("waits for none"));
  CHECK_THAT(refused(23, std::string("\0\0\0", 3)), ContainsSubstring("a marker that its stream"));
  CHECK_THAT(refused(28, std::string("\0\0\0\1", 4)),
             ContainsSubstring("more memory than was taken"));
  CHECK_THAT(refused(2, "\x7f"), ContainsSubstring("at most 63"));
  CHECK_THAT(refused(6, "\x7f"), ContainsSubstring("a text"));
  CHECK_THAT(refused(5, std::string("\4\0", 2)), ContainsSubstring("a stack"));
  CHECK_THAT(refused(22, std::string(10, '\xff')), ContainsSubstring("ends before the time"));
  CHECK_THAT(refusal_of("\x8dMRTRACE\2"),
             ContainsSubstring("version 2; only version 1 can be read"));
  CHECK_THAT(refusal_of("\x8dMRTRACE"), ContainsSubstring("ends before its version"));
}

TEST_CASE("a Millrace trace that needs more memory than its length allows is refused") {
  Written written;
  write(written, 1, 2000);
  TraceLimits limits;
  CHECK_NOTHROW(parse_trace(written.sink.bytes, "file", limits));
  limits.max_memory = 1 << 10;
  CHECK_THAT(
      millrace::test::refusal([&] { return parse_trace(written.sink.bytes, "file", limits); }),
      ContainsSubstring("needs more memory"));
  // An ordinary trace does not need the spare memory: the limit by its length suffices.
  limits = {};
  limits.spare_memory = 0;
  CHECK_NOTHROW(parse_trace(written.sink.bytes, "file", limits));
  CHECK(parse_trace(millrace::test::gzipped(written.sink.bytes), "file").blocks.size() ==
        written.expected.blocks.size());
}
