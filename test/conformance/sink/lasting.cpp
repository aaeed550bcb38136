// The content of a sink that is opened again, and the batches that a source reads from it.
#include <chrono>
#include <optional>

#include "millrace/streamer/memory_sink.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// Writes `count` batches of a program to a place and keeps the rows that the sink must have.
struct Written {
  Written(SinkPlace& place, std::uint64_t drawn_from, unsigned count)
      : program(drawn_from, static_cast<unsigned>(1 + drawn_from % 3)), sink(place.open()) {
    sink->begin(program.schema());
    go_on(count);
  }

  void go_on(unsigned count) {
    for (; count > 0; --count) {
      batches.push_back(program.next(static_cast<std::uint32_t>(program.below(program.ranks()))));
      sink->write(batches.back());
      fold(rows, batches.back());
    }
    sink->flush();
  }

  StreamProgram program;
  std::unique_ptr<Sink> sink;
  std::vector<StepBatch> batches;
  Rows rows;
};

bool same_batch(const StepBatch& a, const StepBatch& b) {
  Rows of_a, of_b;
  fold(of_a, a);
  fold(of_b, b);
  return a.commit == b.commit && a.size() == b.size() && of_a == of_b;
}

/// Returns the batches of one rank.
std::vector<StepBatch> of_rank(const std::vector<StepBatch>& batches, std::uint32_t rank) {
  std::vector<StepBatch> some;
  for (const StepBatch& batch : batches) {
    if (batch.commit.rank == rank) some.push_back(batch);
  }
  return some;
}

/// Takes `count` batches. Each one must arrive within a minute.
std::vector<RecordSource::Next> take(RecordSource& source, std::size_t count) {
  std::vector<RecordSource::Next> taken;
  while (taken.size() < count) {
    std::optional<RecordSource::Next> next = source.next(60s);
    REQUIRE(next.has_value());
    taken.push_back(std::move(*next));
  }
  return taken;
}

void over_sources(const FixtureBody& body) { over_sinks(&SinkFixture::is_source, body); }

}  // namespace

TEST_CASE("a reopened sink has all batches that were flushed", "[sink]") {
  over_sinks(&SinkFixture::lasts, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    Written written{*place, seed(), 20};
    const SinkState before = written.sink->state();
    written.sink.reset();
    const auto again = place->open();
    CHECK(difference(rows_of(*again), written.rows) == "");
    CHECK(again->state().commits == before.commits);
    CHECK(again->state().schema == written.program.schema());
  });
}

TEST_CASE("a reopened sink takes next commits and repeats, and refuses lost batches", "[sink]") {
  over_sinks(&SinkFixture::lasts, [](const SinkFixture& fixture) {
    for (std::uint64_t program = 0; program < fixture.programs; ++program) {
      const std::uint64_t drawn_from = seed() * 1000 + program;
      CAPTURE(drawn_from);
      const auto place = fixture.make_place();
      Written written{*place, drawn_from, static_cast<unsigned>(drawn_from % 7 + 1)};
      for (unsigned time = 0; time < 3; ++time) {
        written.sink.reset();
        written.sink = place->open();
        if (time != 1) written.sink->begin(written.program.schema());
        written.sink->write(written.batches.back());
        written.go_on(3);
      }
      REQUIRE(difference(rows_of(*written.sink), written.rows) == "");

      StepBatch lost;
      lost.commit = written.batches.back().commit;
      lost.commit.version = {lost.commit.version.epoch + 1, 5};
      lost.commit.after = {lost.commit.version.epoch, 4};
      written.sink.reset();
      try {
        place->open()->write(lost);
        FAIL("it took what goes after a commit that it does not have");
      } catch (const SinkError& error) {
        CHECK(error.kind() == SinkError::Kind::lost);
      }
    }
  });
}

TEST_CASE("a reopened sink refuses another schema", "[sink]") {
  over_sinks(&SinkFixture::lasts, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    place->open()->begin(some_schema(RowContent::weights));
    CHECK_THROWS_AS(place->open()->begin(some_schema(RowContent::ids)), SinkError);
    CHECK(place->open()->state().schema == some_schema(RowContent::weights));
  });
}

TEST_CASE("a reopened sink has the position of its last commit", "[sink]") {
  over_sinks(&SinkFixture::keeps_position, [](const SinkFixture& fixture) {
    if (!fixture.lasts) {
      SUCCEED("a kind that does not last");
      return;
    }
    const auto place = fixture.make_place();
    auto sink = place->open();
    sink->begin(some_schema());
    StepBatch batch;
    batch.commit.version = {1, 3};
    sink->write(batch, "segment 4, byte 99");
    sink->flush();
    sink.reset();
    CHECK(place->open()->state().position == "segment 4, byte 99");
  });
}

TEST_CASE("a source returns all batches of each rank, complete and in order", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    for (std::uint64_t program = 0; program < fixture.programs; ++program) {
      const std::uint64_t drawn_from = seed() * 1000 + program;
      CAPTURE(drawn_from);
      const auto place = fixture.make_place();
      Written written{*place, drawn_from, 12};
      const auto source = place->source();
      source->seek("");
      CHECK(source->schema() == written.program.schema());
      std::vector<StepBatch> returned;
      for (RecordSource::Next& next : take(*source, written.batches.size())) {
        returned.push_back(std::move(next.batch));
      }
      for (std::uint32_t rank = 0; rank < written.program.ranks(); ++rank) {
        const auto sent = of_rank(written.batches, rank), came = of_rank(returned, rank);
        REQUIRE(sent.size() == came.size());
        for (std::size_t i = 0; i < sent.size(); ++i) REQUIRE(same_batch(sent[i], came[i]));
      }
    }
  });
}

TEST_CASE("a source continues after any position that it gave", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    Written written{*place, seed(), 10};
    const auto first = place->source();
    first->seek("");
    const auto all = take(*first, 10);
    for (std::size_t behind = 0; behind <= 10; ++behind) {
      CAPTURE(behind);
      MemorySink copy;
      copy.begin(written.program.schema());
      for (std::size_t i = 0; i < behind; ++i) copy.write(all[i].batch);
      const auto source = place->source();
      source->seek(behind == 0 ? "" : all[behind - 1].position);
      CHECK(source->schema() == written.program.schema());
      for (const auto& next : take(*source, 10 - behind)) copy.write(next.batch);
      CHECK(difference(rows_of(copy), written.rows) == "");
      CHECK(copy.state().commits == written.sink->state().commits);
    }
  });
}

TEST_CASE("a source at its end waits at most the given time, and returns later batches", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto source = place->source();
    source->seek("");
    CHECK(!source->schema());
    CHECK(!source->next(0ms));
    Written written{*place, seed(), 3};
    CHECK(take(*source, 3).size() == 3);
    CHECK(source->schema() == written.program.schema());
    CHECK(!source->next(1ms));
    written.go_on(4);
    const auto more = take(*source, 4);
    CHECK(more.size() == 4);
    CHECK(!source->next(0ms));
    source->seek(more[1].position);
    CHECK(take(*source, 2).size() == 2);
  });
}

TEST_CASE("a source returns the batches of an earlier writer before those of a new one", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    Written written{*place, seed(), 5};
    written.sink.reset();
    written.sink = place->open();
    written.sink->begin(written.program.schema());
    written.go_on(5);
    const auto source = place->source();
    MemorySink copy;
    copy.begin(written.program.schema());
    for (const auto& next : take(*source, 10)) copy.write(next.batch, next.position);
    CHECK(difference(rows_of(copy), written.rows) == "");
    CHECK(copy.state().commits == written.sink->state().commits);
  });
}

TEST_CASE("a snapshot request through a source reaches every rank that writes", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    Written written{*place, seed(), 2};
    CHECK(written.sink->snapshot_request() == 0);
    const auto source = place->source();
    source->ask_for_snapshot();
    const std::uint64_t first = written.sink->snapshot_request();
    CHECK(first > 0);
    CHECK(written.sink->snapshot_request() == first);  // another rank's call
    written.sink.reset();
    written.sink = place->open();
    CHECK(written.sink->snapshot_request() == first);  // the next writer's call
    source->ask_for_snapshot();
    CHECK(written.sink->snapshot_request() != first);
  });
}

TEST_CASE("a source refuses text that is not a position", "[sink]") {
  over_sources([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    Written written{*place, seed(), 2};
    for (const char* position : {"?", "1", "0:1:99999999999999999999", "-1", "{}", "7 7 7"}) {
      CAPTURE(position);
      const auto source = place->source();
      CHECK_THROWS_AS(
          [&] {
            source->seek(position);
            (void)source->next(0ms);
          }(),
          SinkError);
    }
  });
}

}  // namespace millrace::test
