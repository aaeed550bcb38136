#include "millrace/streamer/applier.hpp"

#include <memory>
#include <random>
#include <stdexcept>

#include "apply/copy_position.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/streamer/apply/log_rig.hpp"
#include "test/streamer/ship/faulty_sink.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

ApplyReport apply_all(Log& log, Sink& copy, Executor& executor, std::size_t most = 1000) {
  LogSource source{log};
  Applier applier{source, copy, executor};
  while (most-- > 0 && applier.apply_next(1s, always)) {
  }
  return applier.report();
}

/// Two ranks write a step each. The next step of rank 1 never reaches the log.
Writer with_gap_of_rank_1() {
  Writer writer{.ranks = 2};
  writer.write(0, {1});
  writer.write(1, {2});
  static_cast<void>(writer.made(1, {3}));
  return writer;
}

}  // namespace

TEST_CASE("a copy has all written rows, in whatever pieces the log is applied") {
  VirtualMachine machine;
  std::mt19937_64 random{seed()};
  Writer writer{.ranks = 3};
  MemorySink copy;
  for (std::uint32_t rank = 0; rank < 3; ++rank) writer.write(rank, {rank});
  for (int round = 0; round < 30; ++round) {
    for (std::uint64_t i = random() % 5; i > 0; --i) {
      writer.write(static_cast<std::uint32_t>(random() % 3),
                   {static_cast<std::int64_t>(random() % kRows)});
    }
    apply_all(writer.log, copy, machine.executor(), random() % 6);
  }
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(rows_of(copy) == writer.table);
  CHECK(report.complete);
  CHECK(report.gaps == 0);
  CHECK(writer.log.snapshots_asked == 0);
}

TEST_CASE("an applier goes on if the log loses its beginning before the schema is read") {
  VirtualMachine machine;
  Writer writer;
  writer.write(0, {1});
  MemorySink copy;
  writer.log.schemas_lost = 2;
  LogSource source{writer.log};
  Applier applier{source, copy, machine.executor()};
  for (int calls = 0; calls < 10; ++calls) static_cast<void>(applier.apply_next(1s, always));
  CHECK(writer.log.schemas_lost == 0);
  CHECK(rows_of(copy) == writer.table);
  CHECK(applier.report().complete);
}

TEST_CASE("a new applier continues after the last applied batch") {
  VirtualMachine machine;
  Writer writer;
  writer.write(0, {1});
  writer.write(0, {2});
  MemorySink copy;
  apply_all(writer.log, copy, machine.executor());
  writer.write(0, {3});
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.batches == 1);
  CHECK(rows_of(copy) == writer.table);
}

TEST_CASE("a gap is found, requests a snapshot, and leaves rows missing until it arrives") {
  VirtualMachine machine;
  Writer writer;
  writer.write(0, {1, 2});
  MemorySink copy;
  apply_all(writer.log, copy, machine.executor());
  static_cast<void>(writer.made(0, {5}));  // never reaches the log
  writer.write(0, {3});
  ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.gaps == 1);
  CHECK_FALSE(report.complete);
  CHECK(writer.log.snapshots_asked == 1);
  CHECK(copy.state().missing() >= kRows);
  CHECK(rows_of(copy).at(3) == writer.table.at(3));  // new rows are written meanwhile

  writer.write(0, {4});
  report = apply_all(writer.log, copy, machine.executor());  // a new applier still knows
  CHECK_FALSE(report.complete);
  CHECK(report.gaps == 0);
  CHECK(copy.state().missing() >= kRows);

  writer.snapshot();
  writer.write(0, {6});
  report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.complete);
  CHECK(rows_of(copy) == writer.table);
  CHECK(writer.log.snapshots_asked == 1);
}

TEST_CASE("a gap exists only where the source has removed the next batch") {
  VirtualMachine machine;
  Writer writer;
  for (std::int64_t row = 0; row < 6; ++row) writer.write(0, {row});
  MemorySink copy;
  apply_all(writer.log, copy, machine.executor(), 3);
  writer.log.removed = 3;
  CHECK(apply_all(writer.log, copy, machine.executor(), 1).gaps == 0);
  writer.log.removed = 5;
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.gaps == 1);
  CHECK(writer.log.snapshots_asked == 1);
  CHECK_FALSE(report.complete);
}

TEST_CASE("a batch with missing rows leaves a gap, which is reported and requested once") {
  VirtualMachine machine;
  Writer writer;
  writer.write(0, {1, 2});
  writer.write(0, {1});
  writer.log.lost.insert(writer.step);
  writer.write(0, {2});
  writer.log.lost.insert(writer.step);
  MemorySink copy;
  ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.gaps == 1);
  CHECK(report.last_gap == "a row fell out");
  CHECK(writer.log.snapshots_asked == 1);
  CHECK(copy.state().missing() == kRows);
  CHECK(rows_of(copy) == writer.table);  // new rows are written meanwhile

  report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.gaps == 0);
  CHECK_FALSE(report.complete);
  writer.snapshot();
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
  CHECK(writer.log.snapshots_asked == 1);
}

TEST_CASE("a snapshot that answers the request fills a gap, an earlier answer does not") {
  VirtualMachine machine;
  Writer writer;
  writer.answers = 6;
  writer.write(0, {1, 2});
  writer.write(0, {1});
  writer.log.lost.insert(writer.step);
  writer.write(0, {2});
  MemorySink copy;
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  writer.write(0, {3});
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  writer.answers = 5;  // any other number will do
  writer.write(0, {4});
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
}

TEST_CASE("a snapshot that the copy had before a gap does not fill it") {
  VirtualMachine machine;
  Writer writer;
  writer.snapshot();
  writer.write(0, {1});
  MemorySink copy;
  apply_all(writer.log, copy, machine.executor());
  static_cast<void>(writer.made(0, {2}));
  writer.write(0, {3});
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  // The batch that the copy had read no longer exists, and older batches exist again. The applier
  // reads the log from its beginning.
  writer.log.batches.insert(writer.log.batches.begin(), 5, writer.log.batches.front());
  writer.log.removed = 5;
  writer.write(0, {4});
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  writer.snapshot();
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
}

TEST_CASE("a copy that begins in the middle of a log requests a snapshot") {
  VirtualMachine machine;
  Writer writer;
  for (std::int64_t row = 0; row < 6; ++row) writer.write(0, {row});
  writer.log.removed = 2;
  MemorySink copy;
  CHECK(apply_all(writer.log, copy, machine.executor()).gaps == 1);
  writer.snapshot();
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
  CHECK(rows_of(copy) == writer.table);
}

TEST_CASE("a gap of one rank is filled only by a snapshot of that rank") {
  VirtualMachine machine;
  Writer writer = with_gap_of_rank_1();
  writer.write(1, {4});
  writer.snapshot(0);
  MemorySink copy;
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  writer.snapshot(1);
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
}

TEST_CASE("a gap of a rank that no longer exists is filled by a later epoch's ranks") {
  VirtualMachine machine;
  Writer writer = with_gap_of_rank_1();
  writer.write(1, {4});
  MemorySink copy;
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  ++writer.epoch;
  writer.ranks = 1;
  writer.snapshot(0);
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.complete);
  CHECK(rows_of(copy) == writer.table);
}

TEST_CASE("a late batch of a rank that no longer exists is not a gap") {
  VirtualMachine machine;
  Writer writer = with_gap_of_rank_1();
  const StepBatch late = writer.made(1, {4});
  ++writer.epoch;
  writer.ranks = 1;
  writer.snapshot(0);
  writer.log.batches.push_back(late);
  writer.write(0, {5});
  MemorySink copy;
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.complete);
  CHECK(report.gaps == 0);
  CHECK(writer.log.snapshots_asked == 0);
  CHECK(rows_of(copy) == writer.table);
}

TEST_CASE("a gap of a rank is not filled by an earlier epoch with fewer ranks") {
  VirtualMachine machine;
  Writer writer{.ranks = 1};
  writer.snapshot(0);
  writer.write(0, {1});
  const StepBatch old = writer.made(0, {2});
  ++writer.epoch;
  writer.ranks = 2;
  writer.snapshot(1);
  static_cast<void>(writer.made(1, {3}));
  writer.write(1, {4});
  writer.log.batches.push_back(old);
  writer.snapshot(0);
  MemorySink copy;
  CHECK_FALSE(apply_all(writer.log, copy, machine.executor()).complete);
  writer.snapshot(1);
  CHECK(apply_all(writer.log, copy, machine.executor()).complete);
}

TEST_CASE("an applier repeats calls that fail until its condition says to stop") {
  VirtualMachine machine;
  Writer writer;
  for (std::int64_t row = 0; row < 6; ++row) writer.write(0, {row});
  auto memory = std::make_shared<MemorySink>();
  std::mt19937_64 random{seed()};
  bool down = false;
  FaultySink copy{memory, [&](const std::string&) {
                    if (down || random() % 2 == 0) {
                      throw SinkError{SinkError::Kind::retry, "the seed says so"};
                    }
                  }};
  const ApplyReport report = apply_all(writer.log, copy, machine.executor());
  CHECK(report.retries > 0);
  CHECK(rows_of(*memory) == writer.table);
  CHECK_FALSE(report.failing);

  down = true;
  writer.write(0, {7});
  LogSource source{writer.log};
  Applier applier{source, copy, machine.executor()};
  const Nanoseconds until = machine.now() + 5s;
  CHECK_FALSE(applier.apply_next(1s, [&] { return machine.now() < until; }));
  CHECK(machine.now() < until + 1s);
  CHECK(applier.report().failing);
  CHECK_FALSE(applier.apply_next(1s, [] { return false; }));
  CHECK(applier.report().failing);
}

TEST_CASE("an empty source has nothing to apply") {
  VirtualMachine machine;
  Writer writer;
  writer.log.schema.reset();
  MemorySink copy;
  LogSource source{writer.log};
  Applier applier{source, copy, machine.executor()};
  CHECK_FALSE(applier.apply_next(1s, always));
  CHECK_FALSE(applier.report().complete);
  writer.log.schema = kSchema;
  writer.write(0, {1});
  CHECK(applier.apply_next(1s, always));
  CHECK(applier.report().complete);
}

TEST_CASE("a position of a copy is read back, and other text is refused") {
  for (const apply::CopyPosition& position :
       {apply::CopyPosition{}, apply::CopyPosition{{{3, 7}}, "a|b"},
        apply::CopyPosition{{{0, 1}, {17, ~0ULL}}, ""}}) {
    CHECK(apply::parse_position(apply::to_text(position)) == position);
  }
  CHECK(apply::parse_position("") == apply::CopyPosition{});
  for (const char* text : {"12", "a|", "1,2|x", "1:2", "1|x", "1:2|x", "1:x |x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(apply::parse_position(text), std::invalid_argument);
  }
}
