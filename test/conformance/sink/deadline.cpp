// Calls end at the time that `finish_by` sets, although the sink's peer accepts all data and
// answers nothing.
#include <chrono>
#include <thread>

#include "test/conformance/sink/sink_conformance.hpp"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// The time limits of a sink itself are 5 s or more.
constexpr auto kSoon = 4s;

StepBatch twenty_rows(Version version, Version after) {
  StepBatch batch;
  batch.commit.version = version;
  batch.commit.after = after;
  for (std::int64_t row = 0; row < 20; ++row) add_row(batch, some_schema(), {0, row}, version);
  return batch;
}

struct Call {
  const char* name;
  std::function<void(Sink&)> make;
};

std::vector<Call> all_calls() {
  return {{"state", [](Sink& sink) { static_cast<void>(sink.state()); }},
          {"begin", [](Sink& sink) { sink.begin(some_schema()); }},
          {"write",
           [](Sink& sink) {
             sink.write(twenty_rows({1, 2}, {1, 1}));
           }},
          {"flush", [](Sink& sink) { sink.flush(); }},
          {"snapshot_request", [](Sink& sink) { static_cast<void>(sink.snapshot_request()); }},
          {"audit", [](Sink& sink) { sink.audit(0, 1); }},
          {"list_rows", [](Sink& sink) { static_cast<void>(sink.list_rows([](auto, auto) {})); }},
          {"read", [](Sink& sink) { sink.read([](const RowRecord&) {}); }}};
}

/// Keeps the peer of a sink silent while it lives.
class Silence {
 public:
  explicit Silence(SinkPlace& place) : place_(place) { place_.fall_silent(); }
  ~Silence() { place_.speak(); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  SinkPlace& place_;
};

/// @param ahead  negative: sets the end during the call; otherwise before the call
void check_ends(Sink& sink, const Call& call, std::chrono::milliseconds ahead) {
  CAPTURE(call.name, ahead);
  const auto end = [&] { sink.finish_by(Clock::now() + 20ms); };
  if (ahead >= 0ms) end();
  std::thread later{[&] {
    std::this_thread::sleep_for(20ms);
    if (ahead < 0ms) end();
  }};
  const auto begin = Clock::now();
  const auto refusal = refusal_of([&] { call.make(sink); });
  const auto took = Clock::now() - begin;
  later.join();
  sink.finish_by(Clock::time_point::max());
  CHECK(took < kSoon);
  if (refusal) CHECK(*refusal == SinkError::Kind::retry);
}

}  // namespace

TEST_CASE("calls of a sink end at their deadline even if the peer is silent", "[sink]") {
  over_sinks(&SinkFixture::has_peer, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    place->open()->begin(some_schema());
    for (const auto ahead : {0ms, -1ms}) {
      for (const Call& call : all_calls()) {
        const auto begun = place->open(), fresh = place->open();
        begun->begin(some_schema());
        begun->write(twenty_rows({1, 1}, {}));
        const Silence silence{*place};
        for (Sink* const sink : {begun.get(), fresh.get()}) check_ends(*sink, call, ahead);
      }
    }
  });
}

TEST_CASE("a sink whose calls reached their deadline continues once the deadline is lifted",
          "[sink]") {
  over_sinks(&SinkFixture::has_peer, [](const SinkFixture& fixture) {
    const auto place = fixture.make_place();
    const auto sink = place->open();
    sink->begin(some_schema());
    Rows expected;
    Version before;
    for (std::uint64_t step = 1; step < 6; ++step) {
      const StepBatch batch = twenty_rows({1, step}, before);
      before = batch.commit.version;
      fold(expected, batch);
      {
        const Silence silence{*place};
        sink->finish_by(Clock::now() + 10ms);
        CHECK(refusal_of([&] { sink->write(batch); }) == SinkError::Kind::retry);
      }
      sink->finish_by(Clock::time_point::max());
      while (const auto refusal = refusal_of([&] { sink->write(batch); })) {
        REQUIRE(*refusal == SinkError::Kind::retry);
      }
    }
    CHECK(sink->state().commits.at(0).version == Version{1, 5});
    CHECK(difference(rows_of(*sink), expected) == "");
  });
}

}  // namespace millrace::test
