// A trainer that still writes after a later one has begun to write.
#include <atomic>
#include <thread>

#include "test/conformance/sink/sink_conformance.hpp"

namespace millrace::test {
namespace {

using Kind = SinkError::Kind;

/// Returns a batch with rows [0, 20) of a rank.
StepBatch ranked_batch(Version version, Version after, std::uint32_t rank = 0) {
  StepBatch batch;
  batch.commit.version = version;
  batch.commit.after = after;
  batch.commit.rank = rank;
  for (std::int64_t row = 0; row < 20; ++row) add_row(batch, some_schema(), {0, row}, version);
  return batch;
}

std::optional<Kind> refusal_of_write(Sink& sink, const StepBatch& batch) {
  return refusal_of([&] { sink.write(batch); });
}

}  // namespace

TEST_CASE("a batch of an epoch older than the newest commit's is overtaken, and not written",
          "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(some_schema());
    sink->write(ranked_batch({1, 1}, {}));
    sink->write(ranked_batch({2, 1}, {}));
    const Rows rows = rows_of(*sink);
    CHECK(refusal_of_write(*sink, ranked_batch({1, 2}, {1, 1})) == Kind::overtaken);
    CHECK(refusal_of_write(*sink, ranked_batch({1, 3}, {})) == Kind::overtaken);
    CHECK(difference(rows_of(*sink), rows) == "");
    CHECK(sink->state().commits.at(0).version == Version{2, 1});
  });
}

TEST_CASE("a trainer learns at its next call that a later trainer writes for its rank", "[sink]") {
  over_sinks(&SinkFixture::rivals, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto one = place->open(), later = place->open();
    for (Sink* const sink : {one.get(), later.get()}) sink->begin(some_schema());
    one->write(ranked_batch({1, 1}, {}));
    one->audit(0, 1);
    later->write(ranked_batch({2, 1}, {}));
    const Rows rows = rows_of(*later);
    CHECK(refusal_of([&] { one->audit(0, 1); }) == Kind::overtaken);
    CHECK(refusal_of_write(*one, ranked_batch({1, 2}, {1, 1})) == Kind::overtaken);
    CHECK(refusal_of_write(*one, ranked_batch({1, 3}, {})) == Kind::overtaken);
    later->write(ranked_batch({2, 2}, {2, 1}));
    later->audit(0, 2);
    CHECK(refusal_of([&] { one->audit(1, 1); }) == Kind::overtaken);
    CHECK(difference(rows_of(*one), rows_of(*later)) == "");
    CHECK(one->state().commits.at(0).version == Version{2, 2});
  });
}

TEST_CASE("of two concurrent trainers the older is overtaken, and all rows are the later one's",
          "[sink]") {
  over_sinks(&SinkFixture::rivals, [](const SinkFixture& fixture) {
    for (unsigned round = 0; round < fixture.programs; ++round) {
      const auto place = fixture.make_place();
      const auto one = place->open(), later = place->open();
      for (Sink* const sink : {one.get(), later.get()}) sink->begin(some_schema());
      std::atomic<unsigned> begun = 0;
      std::optional<Kind> ended;
      std::thread older{[&] {
        Version before;
        for (std::uint64_t step = 1; !ended; ++step) {
          ended = refusal_of_write(*one, ranked_batch({1, step}, before));
          before = {1, step};
          ++begun;
        }
      }};
      while (begun <= round % 4) std::this_thread::yield();
      const auto refused = refusal_of_write(*later, ranked_batch({2, 1}, {}));
      older.join();
      REQUIRE(!refused);
      CHECK(ended == Kind::overtaken);
      Rows expected;
      fold(expected, ranked_batch({2, 1}, {}));
      CHECK(difference(rows_of(*later), expected) == "");
      CHECK(later->state().commits.at(0).version == Version{2, 1});
    }
  });
}

}  // namespace millrace::test
