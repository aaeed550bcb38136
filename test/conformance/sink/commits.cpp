// The state that a sink reports: its schema, its commits, and the applier's position.
#include "test/conformance/sink/sink_conformance.hpp"

namespace millrace::test {
namespace {

StepBatch committed(Version version, Version after, std::uint32_t rank = 0) {
  StepBatch batch;
  batch.commit = {.version = version,
                  .after = after,
                  .step = version.step + 100,
                  .rank = rank,
                  .ranks = 3,
                  .missing = 5};
  add_row(batch, some_schema(), {0, static_cast<std::int64_t>(version.step)}, version);
  return batch;
}

std::optional<SinkError::Kind> refusal(Sink& sink, const StepBatch& batch) {
  return refusal_of([&] { sink.write(batch); });
}

void over_begun_sinks(const std::function<void(Sink&)>& body) {
  over_every_sink([&](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(some_schema());
    body(*sink);
  });
}

}  // namespace

TEST_CASE("an empty sink has no schema, no commit, no row and no position", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    const SinkState state = sink->state();
    CHECK(!state.schema);
    CHECK(state.commits.empty());
    CHECK(state.position.empty());
    CHECK(rows_of(*sink).empty());
    CHECK(sink->snapshot_request() == 0);
  });
}

TEST_CASE("a sink keeps the schema that it began with, and accepts it again", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema(RowContent::weights_and_state, 5);
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(schema);
    sink->begin(schema);
    CHECK(sink->state().schema == schema);
  });
}

TEST_CASE("another schema is refused as wrong, and the sink stays unchanged", "[sink]") {
  over_begun_sinks([](Sink& sink) {
    sink.write(committed({1, 1}, {}));
    StreamSchema other = some_schema();
    other.tables[1].width += 1;
    try {
      sink.begin(other);
      FAIL("it took another schema");
    } catch (const SinkError& error) {
      CHECK(error.kind() == SinkError::Kind::wrong);
      CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("'table.1'"));
    }
    CHECK(sink.state().schema == some_schema());
    CHECK(rows_of(sink).size() == 1);
  });
}

TEST_CASE("the newest commit of each rank is kept unchanged", "[sink]") {
  over_begun_sinks([](Sink& sink) {
    sink.write(committed({3, 5}, {}, 0));
    sink.write(committed({3, 7}, {}, 2));
    sink.write(committed({3, 6}, {3, 5}, 0));
    const SinkState state = sink.state();
    REQUIRE(state.commits.size() == 2);
    CHECK(state.commits.at(0) == committed({3, 6}, {3, 5}, 0).commit);
    CHECK(state.commits.at(2) == committed({3, 7}, {}, 2).commit);
    CHECK(!state.committed_by_all());
    sink.write(committed({3, 9}, {}, 1));
    CHECK(sink.state().committed_by_all() == Version{3, 106});
  });
}

TEST_CASE("a batch after a commit that is not the newest is lost, and not written", "[sink]") {
  over_begun_sinks([](Sink& sink) {
    CHECK(refusal(sink, committed({1, 3}, {1, 2})) == SinkError::Kind::lost);
    CHECK(sink.state().commits.empty());
    sink.write(committed({1, 1}, {}));
    CHECK(refusal(sink, committed({1, 3}, {1, 2})) == SinkError::Kind::lost);
    CHECK(refusal(sink, committed({1, 4}, {1, 0})) == SinkError::Kind::lost);
    CHECK(refusal(sink, committed({1, 4}, {1, 1}, 2)) == SinkError::Kind::lost);
    CHECK(rows_of(sink).size() == 1);
    CHECK(sink.state().commits.at(0).version == Version{1, 1});
    CHECK(!sink.state().commits.contains(2));
  });
}

TEST_CASE("a chain may begin anew after any commit", "[sink]") {
  over_begun_sinks([](Sink& sink) {
    sink.write(committed({1, 7}, {}));
    sink.write(committed({1, 9}, {}));
    sink.write(committed({2, 0}, {}));
    sink.write(committed({2, 1}, {2, 0}));
    CHECK(sink.state().commits.at(0).version == Version{2, 1});
    CHECK(rows_of(sink).size() == 4);
  });
}

TEST_CASE("a batch has no effect if its commit or a newer one is present", "[sink]") {
  over_begun_sinks([](Sink& sink) {
    sink.write(committed({1, 1}, {}));
    sink.write(committed({1, 4}, {1, 1}));
    const Rows rows = rows_of(sink);
    CHECK(!refusal(sink, committed({1, 4}, {1, 1})));
    CHECK(!refusal(sink, committed({1, 1}, {})));
    CHECK(!refusal(sink, committed({1, 3}, {1, 2})));
    CHECK(!refusal(sink, committed({1, 2}, {})));
    CHECK(difference(rows_of(sink), rows) == "");
    CHECK(sink.state().commits.at(0) == committed({1, 4}, {1, 1}).commit);
  });
}

TEST_CASE("the applier's position is kept with the commit, and a repeat does not move it",
          "[sink]") {
  over_sinks(&SinkFixture::keeps_position, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(some_schema());
    sink->write(committed({1, 1}, {}), "0:17");
    CHECK(sink->state().position == "0:17");
    sink->write(committed({1, 2}, {}, 1));
    CHECK(sink->state().position == "0:17");
    sink->write(committed({1, 1}, {}), "0:99");
    CHECK(sink->state().position == "0:17");
    CHECK(refusal(*sink, committed({1, 4}, {1, 3})) == SinkError::Kind::lost);
    sink->write(committed({1, 5}, {}), std::string(500, 'x') + "\n\xFF");
    CHECK(sink->state().position == std::string(500, 'x') + "\n\xFF");
  });
}

}  // namespace millrace::test
