// The law: what an applier reports as whole, at the end of a log, is complete, whatever the log and
// the copy lose.
#include <memory>
#include <random>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/streamer/applier.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "test/streamer/apply/log_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// A copy that a test can empty. Like a Redis sink, it then has the schema again without `begin`.
class EmptiedSink final : public Sink {
 public:
  [[nodiscard]] std::string name() const override { return "copy"; }
  [[nodiscard]] SinkState state() override { return sink_->state(); }
  void begin(const StreamSchema& schema) override { sink_->begin(schema); }
  void write(const StepBatch& batch, std::string_view position) override {
    sink_->write(batch, position);
  }
  void flush() override {}
  void read(const std::function<void(const RowRecord&)>& visit) override { sink_->read(visit); }

  void empty() {
    sink_ = std::make_unique<MemorySink>();
    sink_->begin(kSchema);
  }

 private:
  std::unique_ptr<MemorySink> sink_ = std::make_unique<MemorySink>();
};

/// One applier for one copy.
struct Applying {
  explicit Applying(Log& log, Sink& copy)
      : source(log), applier(source, copy, machine.executor()) {}

  void apply_all() {
    while (applier.apply_next(1s, always)) {
    }
  }
  /// True if the applier reports the copy as whole and has reached the end of the log.
  bool is_complete() {
    const auto left = applier.left(always);
    return left && left->count == 0 && applier.report().complete && !applier.report().failing;
  }

  VirtualMachine machine;
  LogSource source;
  Applier applier;
};

/// Trainers, their log and a copy of it, with all the faults that log and copy can have.
class Scene {
 public:
  explicit Scene(std::uint64_t drawn_from) : random_(drawn_from) {
    writer_.ranks = 1 + static_cast<std::uint32_t>(drawn_from % 3);
    for (std::uint32_t rank = 0; rank < writer_.ranks; ++rank) writer_.snapshot(rank);
  }

  /// Runs an applier that stops at a drawn point, and checks what it reports about the copy.
  /// @return whether the copy was complete
  bool live(bool undisturbed) {
    if (undisturbed) writer_.log.schema = kSchema;  // every start of a trainer writes the schema
    Applying applying{writer_.log, copy_};
    for (std::uint32_t rank = 0; undisturbed && rank < writer_.ranks; ++rank) train(rank);
    for (std::uint64_t calls = random_() % 12; calls > 0; --calls) {
      if (!undisturbed) disturb();
      if (random_() % 2 == 0) train(static_cast<std::uint32_t>(random_() % writer_.ranks));
      (void)applying.applier.apply_next(1s, [&] { return undisturbed || random_() % 16 != 0; });
    }
    if (undisturbed) applying.apply_all();
    const bool complete = applying.is_complete();
    if (complete) CHECK(rows_of(copy_) == writer_.table);
    return complete;
  }

  void answer() {
    if (answered_ == writer_.log.snapshots_asked) return;
    answered_ = writer_.log.snapshots_asked;
    ++writer_.answers;
    writer_.log.schema = kSchema;
    for (std::uint32_t rank = 0; rank < writer_.ranks; ++rank) writer_.snapshot(rank);
  }

 private:
  void train(std::uint32_t rank) {
    if (random_() % 4 == 0) answer();
    writer_.write(rank, {static_cast<std::int64_t>(random_() % kRows)});
  }
  void disturb() {
    Log& log = writer_.log;
    switch (random_() % 12) {
      case 0:
        log.removed += random_() % (log.batches.size() - log.removed + 1);
        break;
      case 1:
        copy_.empty();
        break;
      case 2:
        log.schema.reset();
        break;
      default:
        break;
    }
  }

  std::mt19937_64 random_;
  Writer writer_;
  EmptiedSink copy_;
  int answered_ = 0;
};

}  // namespace

TEST_CASE("a copy that is reported as whole at the end of the log is the table", "[apply]") {
  int complete = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t drawn_from = seed() * 1000 + i;
    CAPTURE(drawn_from);
    Scene scene{drawn_from};
    for (int life = 0; life < 8; ++life) complete += scene.live(false) ? 1 : 0;
    bool at_last = false;
    for (int life = 0; life < 4 && !at_last; ++life) {
      at_last = scene.live(true);
      scene.answer();
    }
    REQUIRE(at_last);
  }
  CHECK(complete > 100);
}

TEST_CASE("a log that has lost its schema is read with the schema of the copy", "[apply]") {
  Writer writer;
  writer.write(0, {1});
  MemorySink copy;
  Applying{writer.log, copy}.apply_all();
  writer.log.schema.reset();
  writer.write(0, {2});
  Applying applying{writer.log, copy};
  applying.apply_all();
  CHECK(rows_of(copy) == writer.table);
  CHECK(applying.is_complete());
}

TEST_CASE("a log without a schema is not applied, and its batches are counted as left", "[apply]") {
  Writer writer;
  writer.write(0, {1});
  writer.log.schema.reset();
  MemorySink copy;
  Applying applying{writer.log, copy};
  applying.apply_all();
  CHECK(applying.applier.left(always)->count == 1);
  CHECK_FALSE(applying.applier.report().has_schema);
}

TEST_CASE("a log that has nothing after the copy's position gets one request for a snapshot",
          "[apply]") {
  Writer writer;
  for (std::int64_t row = 0; row < 6; ++row) writer.write(0, {row});
  MemorySink copy;
  {
    Applying applying{writer.log, copy};
    for (int i = 0; i < 3; ++i) REQUIRE(applying.applier.apply_next(1s, always));
  }
  writer.log.removed = writer.log.batches.size();
  Applying applying{writer.log, copy};
  applying.apply_all();
  CHECK(writer.log.snapshots_asked == 1);
  CHECK(applying.applier.left(always)->count == 0);
  CHECK_FALSE(applying.applier.report().complete);
  CHECK_THAT(applying.applier.report().last_gap,
             Catch::Matchers::ContainsSubstring("not in what is left"));
  applying.apply_all();
  CHECK(writer.log.snapshots_asked == 1);  // only once
  writer.snapshot();
  applying.apply_all();
  CHECK(applying.is_complete());
  CHECK(rows_of(copy) == writer.table);
}

TEST_CASE("the batches left in a log are counted until all are applied", "[apply]") {
  Writer writer;
  for (std::int64_t row = 0; row < 3; ++row) writer.write(0, {row});
  MemorySink copy;
  Applying applying{writer.log, copy};
  for (std::uint64_t left = 3; left > 0; --left) {
    CHECK(applying.applier.left(always)->count == left);
    REQUIRE(applying.applier.apply_next(1s, always));
  }
  CHECK(applying.applier.left(always)->count == 0);
}

TEST_CASE("a batch that was read and not written counts as left and is written next", "[apply]") {
  Writer writer;
  writer.write(0, {1});
  EmptiedSink copy;
  Applying applying{writer.log, copy};
  int calls = 0;  // it stops after state, seek, schema, begin and read
  CHECK_FALSE(applying.applier.apply_next(1s, [&] { return ++calls <= 5; }));
  REQUIRE(copy.state().schema);
  CHECK(copy.state().commits.empty());
  CHECK(applying.applier.left(always)->count == 1);
  CHECK(applying.applier.apply_next(1s, always));
  CHECK(applying.is_complete());
}

namespace {

/// A copy that had the whole log and was then emptied.
struct EmptiedCopy {
  EmptiedCopy() {
    writer.snapshot();
    for (std::int64_t row = 0; row < 6; ++row) writer.write(0, {row});
    applying.apply_all();
    copy.empty();
  }

  Writer writer;
  EmptiedSink copy;
  Applying applying{writer.log, copy};
};

}  // namespace

TEST_CASE("a copy that was emptied gets the log again, also without new batches", "[apply]") {
  const bool follows = GENERATE(true, false);
  CAPTURE(follows);
  EmptiedCopy emptied;
  auto& [writer, copy, applying] = emptied;
  if (follows) writer.write(0, {7});
  CHECK_FALSE(applying.is_complete());
  applying.apply_all();
  applying.apply_all();  // the first call may only have detected it
  CHECK(applying.is_complete());
  CHECK(applying.applier.report().restarts == 1);
  CHECK(rows_of(copy) == writer.table);
  CHECK(writer.log.snapshots_asked == 0);
}

TEST_CASE("a copy that was emptied requests a snapshot if the log has lost its beginning",
          "[apply]") {
  EmptiedCopy emptied;
  auto& [writer, copy, applying] = emptied;
  writer.log.removed = 4;
  writer.write(0, {7});
  for (int i = 0; i < 3; ++i) applying.apply_all();
  CHECK(writer.log.snapshots_asked == 1);
  CHECK_FALSE(applying.is_complete());
  writer.snapshot();
  applying.apply_all();
  CHECK(applying.is_complete());
  CHECK(rows_of(copy) == writer.table);
}
