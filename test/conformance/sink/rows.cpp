// The rows that a sink has after writes.
#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

StepBatch batch_of(Version version, Version after = {}) {
  StepBatch batch;
  batch.commit.version = version;
  batch.commit.after = after;
  return batch;
}

/// Writes the batch to an empty sink. Describes how the rows that it reads differ from the batch.
std::string after_one_batch(SinkPlace& place, const StreamSchema& schema, const StepBatch& batch) {
  const auto sink = place.open();
  sink->begin(schema);
  sink->write(batch);
  Rows expected;
  fold(expected, batch);
  return difference(rows_of(*sink), expected);
}

/// Runs the body on a thread for each rank. Rethrows an exception of a thread.
void on_threads(unsigned ranks, const std::function<void(unsigned)>& body) {
  std::vector<std::exception_ptr> failures(ranks);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// Batches of four ranks, by rank, and the rows that a sink must then have.
struct FourRanks {
  static constexpr unsigned kRanks = 4;

  explicit FourRanks(std::uint64_t seed) {
    StreamProgram program{seed, kRanks};
    schema = program.schema();
    for (unsigned step = 0; step < 15; ++step) {
      for (unsigned rank = 0; rank < kRanks; ++rank) {
        batches[rank].push_back(program.next(rank));
        fold(rows, batches[rank].back());
      }
    }
  }

  StreamSchema schema;
  std::vector<StepBatch> batches[kRanks];
  Rows rows;
};

void check_marks(Sink& sink, const FourRanks& written) {
  const SinkState state = sink.state();
  for (unsigned rank = 0; rank < FourRanks::kRanks; ++rank) {
    CHECK(state.commits.at(rank) == written.batches[rank].back().commit);
  }
}

}  // namespace

TEST_CASE("a sink has the newest version of each row after batches and repeats in any order",
          "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    for (std::uint64_t program = 0; program < fixture.programs; ++program) {
      const std::uint64_t drawn_from = seed() * 1000 + program;
      CAPTURE(drawn_from);
      StreamProgram stream{drawn_from, static_cast<unsigned>(1 + program % 4)};
      const auto place = fixture.make_place();
      const auto sink = place->open();
      sink->begin(stream.schema());
      std::vector<StepBatch> written;
      Rows expected;
      for (std::size_t left = stream.below(20); left > 0; --left) {
        written.push_back(stream.next(static_cast<std::uint32_t>(stream.below(stream.ranks()))));
        sink->write(written.back());
        fold(expected, written.back());
        for (std::size_t repeats = stream.below(3); repeats > 0; --repeats) {
          write_again(*sink, written[stream.below(written.size())]);
        }
      }
      REQUIRE(difference(rows_of(*sink), expected) == "");
    }
  });
}

TEST_CASE("a row that is written late does not replace a newer one", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema();
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(schema);
    StepBatch first = batch_of({2, 10});
    add_row(first, schema, {0, 7}, {2, 10});
    add_row(first, schema, {0, 8}, {1, 99});
    StepBatch second = batch_of({2, 11}, {2, 10});
    add_row(second, schema, {0, 7}, {1, 200});
    add_row(second, schema, {0, 8}, {2, 0});
    sink->write(first);
    sink->write(second);
    const Rows rows = rows_of(*sink);
    CHECK(rows.at({0, 7}).version == Version{2, 10});
    CHECK(rows.at({0, 8}).version == Version{2, 0});
  });
}

TEST_CASE("versions compare as numbers: step 256 is newer than 255, and an epoch than any step",
          "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema();
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(schema);
    const Version versions[] = {{1, 255},   {1, 256}, {1, 0xFFFFFFFF}, {1, 0x100000000},
                                {1, ~0ULL}, {2, 0},   {256, 1},        {~0ULL, 3}};
    Version after;
    for (const Version version : versions) {
      StepBatch batch = batch_of(version, after);
      add_row(batch, schema, {1, 5}, version);
      sink->write(batch);
      after = version;
      CHECK(rows_of(*sink).at({1, 5}).version == version);
    }
  });
}

TEST_CASE("rows of each content and width are read back with the same bits", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    for (const RowContent content :
         {RowContent::ids, RowContent::weights, RowContent::weights_and_state}) {
      CAPTURE(to_string(content));
      const StreamSchema schema = some_schema(content, 9);
      StepBatch batch = batch_of({1, 1});
      for (std::uint32_t table = 0; table < 9; ++table) {
        for (std::int64_t row = 0; row < 20; ++row) add_row(batch, schema, {table, row}, {1, 1});
      }
      CHECK(after_one_batch(*fixture.make_place(), schema, batch) == "");
    }
  });
}

TEST_CASE("numbers keep their bits, also negative zero, infinities and NaN payloads", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const std::uint32_t bits[] = {0x80000000, 0x7F800000, 0xFF800000, 0x7FC12345,
                                  0xFFA00001, 0x00000001, 0x7F7FFFFF, 0x0A0D0000};
    float numbers[8];
    std::copy_n(reinterpret_cast<const unsigned char*>(bits), sizeof bits,
                reinterpret_cast<unsigned char*>(numbers));
    const StreamSchema schema{.tables = {{.name = "t", .rows = 1, .width = 8}}};
    StepBatch batch = batch_of({1, 1});
    batch.add({.version = {1, 1}, .weights = numbers});
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(schema);
    sink->write(batch);
    bool same = false;
    sink->read([&](const RowRecord& row) {
      same = std::ranges::equal(std::as_bytes(row.weights), std::as_bytes(std::span{numbers}));
    });
    CHECK(same);
  });
}

TEST_CASE("a sink distinguishes more than 127 tables, and more than 255", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema(RowContent::weights, 300);
    StepBatch batch = batch_of({1, 1});
    for (std::uint32_t table = 0; table < 300; ++table) add_row(batch, schema, {table, 3}, {1, 1});
    CHECK(after_one_batch(*fixture.make_place(), schema, batch) == "");
  });
}

TEST_CASE("rows beyond 2^31 and 2^32 are not mistaken for small ones", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema();
    StepBatch batch = batch_of({1, 1});
    for (const std::int64_t row : {std::int64_t{3}, (std::int64_t{1} << 31) + 3,
                                   (std::int64_t{1} << 32) + 3, (std::int64_t{1} << 40) - 1}) {
      add_row(batch, schema, {1, row}, {1, 1});
    }
    CHECK(after_one_batch(*fixture.make_place(), schema, batch) == "");
  });
}

TEST_CASE("the name of a table may have any characters", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    StreamSchema schema;
    for (const char* name : {"a b", "a:b", "a/b", "{a}", "a\nb", "\"a\"", "tablé", "a"}) {
      schema.tables.push_back({.name = name, .rows = 10, .width = 2});
    }
    StepBatch batch = batch_of({1, 1});
    for (std::uint32_t table = 0; table < schema.tables.size(); ++table) {
      add_row(batch, schema, {table, table}, {1, 1});
    }
    CHECK(after_one_batch(*fixture.make_place(), schema, batch) == "");
  });
}

TEST_CASE("a batch of several megabytes is written completely", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema{.tables = {{.name = "wide", .rows = 20'000, .width = 64}}};
    StepBatch batch = batch_of({1, 1});
    for (std::int64_t row = 0; row < 20'000; ++row) add_row(batch, schema, {0, row}, {1, 1});
    REQUIRE(batch.bytes() > (5U << 20U));
    CHECK(after_one_batch(*fixture.make_place(), schema, batch) == "");
  });
}

TEST_CASE("an empty batch moves the commit and writes no row", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(some_schema());
    sink->write(batch_of({1, 4}));
    sink->write(batch_of({1, 9}, {1, 4}));
    CHECK(sink->state().commits.at(0).version == Version{1, 9});
    CHECK(rows_of(*sink).empty());
  });
}

TEST_CASE("several ranks write through one sink at once", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const FourRanks written{seed()};
    const auto place = fixture.make_place();
    const auto sink = place->open();
    on_threads(FourRanks::kRanks, [&](unsigned rank) {
      sink->begin(written.schema);
      for (const StepBatch& batch : written.batches[rank]) sink->write(batch);
    });
    CHECK(difference(rows_of(*sink), written.rows) == "");
    check_marks(*sink, written);
  });
}

TEST_CASE("several ranks write at once, each through a sink of its own", "[sink]") {
  over_sinks(&SinkFixture::many_at_once, [](const SinkFixture& fixture) {
    const FourRanks written{seed() + 1};
    const auto place = fixture.make_place();
    on_threads(FourRanks::kRanks, [&](unsigned rank) {
      const auto sink = place->open();
      sink->begin(written.schema);
      for (const StepBatch& batch : written.batches[rank]) sink->write(batch);
      sink->flush();
    });
    const auto sink = place->open();
    CHECK(difference(rows_of(*sink), written.rows) == "");
    check_marks(*sink, written);
  });
}

TEST_CASE("an exception of a visitor ends the reading, and the sink stays usable", "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const StreamSchema schema = some_schema();
    StepBatch batch = batch_of({1, 1});
    for (std::int64_t row = 0; row < 10; ++row) add_row(batch, schema, {0, row}, {1, 1});
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(schema);
    sink->write(batch);
    CHECK_THROWS_AS(sink->read([](const RowRecord&) { throw std::domain_error{"enough"}; }),
                    std::domain_error);
    CHECK(rows_of(*sink).size() == 10);
  });
}

TEST_CASE("every sink that cannot be tested on this machine says why", "[sink]") {
  for (const SinkFixture& fixture : sink_fixtures()) {
    if (!fixture.absent.empty()) SKIP(fixture.name + ": " + fixture.absent);
  }
  SUCCEED("all are tested");
}

}  // namespace millrace::test
