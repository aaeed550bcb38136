// Rows when brokers are down, are slow, refuse messages, or drop messages that nobody has read.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "sink/kafka/kafka_sink.hpp"
#include "sink/kafka/kafka_source.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/kafka_cluster.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using sink::KafkaSink;
using sink::KafkaSource;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Requests and errors have the numbers of Kafka's protocol.
constexpr const char* kProduceFails = "errors 0 10000 19";    // NOT_ENOUGH_REPLICAS
constexpr const char* kProduceForbidden = "errors 0 10 29";   // TOPIC_AUTHORIZATION_FAILED
constexpr const char* kProducerForbidden = "errors 22 1 31";  // no producer id: fatal
constexpr const char* kFetchFails = "errors 1 3 6";           // NOT_LEADER_FOR_PARTITION
/// With the default settings, users see these errors after ten seconds.
constexpr const char* kQuick = "&message.timeout.ms=300&socket.timeout.ms=300";

/// A cluster, and a sink for it that has begun and has written rows 0 to 39 of version 1:1.
struct Begun {
  explicit Begun(const std::string& settings = "") : rows(cluster.spec("rows", settings)) {
    rows.begin(four_wide_schema());
    rows.write(batch_of_rows({1, 1}, {}, 0, 40, 1));
  }

  KafkaCluster cluster;
  KafkaSink rows;
};

void check_refused(const std::optional<Refusal>& refusal, SinkError::Kind kind, const char* words) {
  REQUIRE(refusal);
  CHECK(refusal->kind == kind);
  CHECK_THAT(refusal->what, ContainsSubstring(words));
}

/// The batches of a source. Waits long for the first `count` batches, and briefly for any others.
std::vector<StepBatch> batches_in(const std::string& spec, std::size_t count) {
  KafkaSource source{spec};
  std::vector<StepBatch> batches;
  while (auto next = source.next(batches.size() < count ? 10s : 100ms)) {
    batches.push_back(std::move(next->batch));
  }
  return batches;
}

}  // namespace

TEST_CASE("a batch that brokers refuse for a while is retried and written once", "[kafka]") {
  Begun begun{kQuick};
  begun.cluster.order(kProduceFails);
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 20, 60, 2);
  const auto refusal = refusal_of([&] { begun.rows.write(next); });
  check_refused(refusal, SinkError::Kind::retry, "were not acknowledged");
  CHECK(begun.rows.state().commits.at(0).version == Version{1, 1});
  begun.cluster.order("well 0");
  while (refusal_of([&] { begun.rows.write(next); })) std::this_thread::sleep_for(20ms);
  const auto values = values_in(begun.rows);
  CHECK(values.size() == 60);
  CHECK(values.at(19) == 1);
  CHECK(values.at(20) == 2);
  const auto batches = batches_in(begun.cluster.spec("rows"), 2);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].size() == 40);
  CHECK(batches[1].commit == next.commit);
}

TEST_CASE("brokers that are down cause retry errors, and a repeated call completes", "[kafka]") {
  Begun begun{kQuick};
  begun.cluster.order("down");
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 0, 100, 2);
  check_refused(refusal_of([&] { begun.rows.write(next); }), SinkError::Kind::retry, "no broker");
  KafkaSink another{begun.cluster.spec("rows", kQuick)};
  check_refused(refusal_of([&] { (void)another.state(); }), SinkError::Kind::retry, "no broker");
  begun.cluster.order("up");
  while (refusal_of([&] { begun.rows.write(next); })) std::this_thread::sleep_for(20ms);
  while (refusal_of([&] { (void)another.state(); })) std::this_thread::sleep_for(20ms);
  CHECK(another.state().commits.at(0).version == Version{1, 2});
  CHECK(values_in(another).size() == 100);
}

TEST_CASE("brokers that do not answer cause a retry error after the time limit", "[kafka]") {
  Begun begun{kQuick};
  begun.cluster.signal(SIGSTOP);
  const StepBatch next = batch_of_rows({1, 2}, {1, 1}, 0, 100, 2);
  check_refused(refusal_of([&] { begun.rows.write(next); }), SinkError::Kind::retry,
                "no broker answers");
  begun.cluster.signal(SIGCONT);
  while (refusal_of([&] { begun.rows.write(next); })) std::this_thread::sleep_for(20ms);
  while (refusal_of([&] { (void)begun.rows.state(); })) std::this_thread::sleep_for(20ms);
  CHECK(values_in(begun.rows).size() == 100);
}

TEST_CASE("finish_by ends a write that brokers refuse, and the write can be repeated", "[kafka]") {
  using Clock = std::chrono::steady_clock;
  Begun begun;  // a message may take 10 s
  for (const auto& [step, settings] :
       {std::pair{2U, ""}, {3U, "&queue.buffering.max.messages=8"}}) {
    CAPTURE(step);
    KafkaSink rows{begun.cluster.spec("rows", settings)};
    const StepBatch next = batch_of_rows({1, step}, {1, step - 1}, 0, 40, static_cast<float>(step));
    begun.cluster.order(kProduceFails);
    std::thread other{[&] {
      std::this_thread::sleep_for(100ms);
      rows.finish_by(Clock::now() + 100ms);
    }};
    const auto begin = Clock::now();
    const auto refusal = refusal_of([&] { rows.write(next); });
    CHECK(Clock::now() - begin < 5s);
    other.join();
    check_refused(refusal, SinkError::Kind::retry, "the deadline has passed");
    begun.cluster.order("well 0");
    rows.finish_by(Clock::time_point::max());
    while (refusal_of([&] { rows.write(next); })) std::this_thread::sleep_for(20ms);
    CHECK(values_in(rows).at(39) == static_cast<float>(step));
  }
}

TEST_CASE("slow brokers lose no row", "[kafka]") {
  Begun begun;
  begun.cluster.order("rtt 30");
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 100, 2));
  begun.rows.write(batch_of_rows({1, 3}, {1, 2}, 0, 100, 3));
  begun.cluster.order("rtt 0");
  for (const auto& [row, value] : values_in(begun.rows)) REQUIRE(value == 3);
}

// librdkafka 2.0 lets later messages of a partition overtake messages that the old leader refused,
// and reports the overtaken ones as delivered. A real broker would refuse the later messages,
// because of the gap in their sequence. The mock cluster accepts them: it checks only the sequences
// of transactions.
TEST_CASE("rows overtaken by later messages when a partition moves are still written", "[kafka]") {
  Begun begun{"&batch.num.messages=4"};  // many messages that can be overtaken
  begun.cluster.order("rtt 10");
  for (std::uint64_t step = 2; step < 8; ++step) {
    for (std::uint64_t part = 0; part < 4; ++part) {
      begun.cluster.order(fmt::format("leader rows {} {}", part, 1 + (step + part) % 3));
    }
    const auto first = static_cast<std::int64_t>(step * 100);
    const StepBatch next = batch_of_rows({1, step}, {1, step - 1}, first, first + 100, 2);
    while (const auto refusal = refusal_of([&] { begun.rows.write(next); })) {
      REQUIRE(refusal->kind == SinkError::Kind::retry);
    }
  }
  begun.cluster.order("rtt 0");
  CHECK(values_in(begun.rows).size() == 40 + 600);
}

TEST_CASE("a writer without permission gets a wrong error", "[kafka]") {
  Begun begun{kQuick};
  begun.cluster.order(kProduceForbidden);
  check_refused(refusal_of([&] {
                  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 100, 2));
                }),
                SinkError::Kind::wrong, "uthorization failed");
}

TEST_CASE("a producer with a permanent failure is replaced", "[kafka]") {
  KafkaCluster cluster;
  cluster.order(kProducerForbidden);
  KafkaSink rows{cluster.spec("rows", kQuick)};
  while (const auto refusal = refusal_of([&] { rows.begin(four_wide_schema()); })) {
    REQUIRE(refusal->kind == SinkError::Kind::retry);
  }
  rows.write(batch_of_rows({1, 1}, {}, 0, 40, 1));
  CHECK(values_in(rows).size() == 40);
  CHECK(batches_in(cluster.spec("rows"), 1).size() == 1);
}

TEST_CASE("a batch larger than the producer's queue is written completely", "[kafka]") {
  Begun begun{"&queue.buffering.max.messages=10"};
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 1000, 2));
  CHECK(values_in(begun.rows).size() == 1000);
}

TEST_CASE("a record that is larger than the largest message is refused as wrong", "[kafka]") {
  KafkaCluster cluster;
  KafkaSink rows{cluster.spec("rows", "&message.max.bytes=1000")};
  rows.begin({.tables = {{.name = "wide", .rows = 1, .width = 400}}});
  StepBatch batch;
  batch.commit.version = {1, 1};
  const std::vector<float> numbers(400);
  batch.add({.version = {1, 1}, .weights = numbers});
  check_refused(refusal_of([&] { rows.write(batch); }), SinkError::Kind::wrong, "too large");
  CHECK(rows.state().commits.empty());
}

TEST_CASE("a topic with only foreign messages is refused as wrong", "[kafka]") {
  KafkaCluster cluster;
  const auto address = sink::parse_kafka_address(cluster.spec("rows"));
  sink::TopicProducer other{address, "rows", "other"};
  const std::vector<std::byte> junk(200, std::byte{7});
  other.send({.part = 2, .key = "k", .record = junk});
  other.settle();
  KafkaSink rows{cluster.spec("rows")};
  check_refused(refusal_of([&] { rows.begin(four_wide_schema()); }), SinkError::Kind::wrong,
                "not written by Millrace");
  KafkaSource source{cluster.spec("rows")};
  CHECK_THROWS_AS((void)source.schema(), RecordError);
}

TEST_CASE("a foreign message in a topic does not stop readers", "[kafka]") {
  Begun begun;
  sink::TopicProducer other{sink::parse_kafka_address(begun.cluster.spec("rows")), "rows", "other"};
  const std::vector<std::byte> junk(200, std::byte{7});
  for (std::int32_t part = 0; part < 4; ++part) {
    other.send({.part = part, .key = "k", .record = junk});
  }
  other.settle();
  begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 40, 2));
  const auto batches = batches_in(begun.cluster.spec("rows"), 2);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].size() == 40);
  CHECK(batches[1].commit.missing == 0);
  KafkaSink another{begun.cluster.spec("rows")};
  CHECK(another.state().commits.at(0).version == Version{1, 2});
  CHECK(values_in(another).size() == 40);
}

TEST_CASE("a source continues to read after brokers fail to answer", "[kafka]") {
  Begun begun;
  begun.cluster.order(kFetchFails);
  CHECK(batches_in(begun.cluster.spec("rows"), 1).size() == 1);
}

TEST_CASE("a source continues after batches that the broker dropped are reported as lost",
          "[kafka]") {
  KafkaCluster cluster;
  cluster.order("topic rows 1");
  KafkaSink rows{cluster.spec("rows")};
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  KafkaSource source{cluster.spec("rows")};
  const auto first = source.next(10s);
  REQUIRE(first);
  for (std::uint64_t step = 2; step < 12; ++step) {  // more than the mock cluster keeps
    rows.write(batch_of_rows({1, step}, {1, step - 1}, 0, 10'000, static_cast<float>(step)));
  }
  KafkaSource late{cluster.spec("rows")};
  check_refused(refusal_of([&] { late.seek(first->position); }), SinkError::Kind::lost,
                "no longer exists");
  late.seek("");
  CHECK(rows.snapshot_request() == 0);
  CHECK(!late.schema());  // the broker dropped its message
  KafkaSink another{cluster.spec("rows")};
  CHECK(another.snapshot_request() > 0);
  rows.write(batch_of_rows({1, 20}, {}, 0, 10, 20));
  const auto next = late.next(10s);
  REQUIRE(next);
  CHECK(next->batch.size() == 10);
  CHECK(next->batch.commit.after == Version{});
  CHECK(late.schema() == four_wide_schema());
}

TEST_CASE("requests for a snapshot are read at most once per given interval", "[kafka]") {
  KafkaCluster cluster;
  KafkaSink often{cluster.spec("rows"), {.requests_every = 0ms}};
  KafkaSink seldom{cluster.spec("rows"), {.requests_every = std::chrono::hours{1}}};
  CHECK(often.snapshot_request() == 0);
  CHECK(seldom.snapshot_request() == 0);
  KafkaSource{cluster.spec("rows")}.ask_for_snapshot();
  CHECK(often.snapshot_request() > 1'700'000'000'000);
  CHECK(seldom.snapshot_request() == 0);
}

TEST_CASE("the newest request counts, whatever the numbers of earlier requests", "[kafka]") {
  KafkaCluster cluster;
  KafkaSink rows{cluster.spec("rows"), {.requests_every = 0ms}};
  sink::TopicProducer other{sink::parse_kafka_address(cluster.spec("rows")), "rows.requests", "o"};
  const auto ask = [&](std::string_view text) {
    other.send({.part = 0, .key = "snapshot", .record = std::as_bytes(std::span{text})});
    other.settle();
  };
  ask("18446744073709551615");
  CHECK(rows.snapshot_request() == ~0ULL);
  ask("7");
  CHECK(rows.snapshot_request() == 7);
  for (const char* none : {"please", "", "0", "99999999999999999999"}) ask(none);
  CHECK(rows.snapshot_request() == 7);
  KafkaSource{cluster.spec("rows")}.ask_for_snapshot();
  CHECK(rows.snapshot_request() > 1'700'000'000'000);
  CHECK(rows.snapshot_request() < ~0ULL);
}

TEST_CASE("an unknown Kafka setting is refused as wrong", "[kafka]") {
  KafkaSink rows{"kafka://localhost:1/rows?no.such.setting=1"};
  check_refused(refusal_of([&] { (void)rows.state(); }), SinkError::Kind::wrong, "no.such.setting");
}

}  // namespace millrace::test
