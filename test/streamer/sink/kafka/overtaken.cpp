// Two trainers that write the rows of one rank to one topic.
#include <atomic>
#include <map>
#include <thread>

#include "sink/kafka/kafka_sink.hpp"
#include "sink/kafka/topic_reading.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/kafka_cluster.hpp"

namespace millrace::test {
namespace {

using sink::KafkaSink;

sink::KafkaLimits always() { return {.requests_every = std::chrono::milliseconds{0}}; }

/// The offset in partition 0 of the first commit of each version.
std::map<Version, std::int64_t> commits_of(const std::string& spec) {
  const auto address = sink::parse_kafka_address(spec);
  const sink::KafkaClient consumer = sink::make_consumer(address, "commits");
  const auto extents = sink::extents_of(consumer, address.topic, 1);
  sink::TopicReading reading{consumer, address.topic, {extents.front().begin}};
  std::map<Version, std::int64_t> commits;
  sink::MessageReader reader;
  reading.read_to(extents, [&](const sink::TopicMessage& message) {
    const auto record = reader.read(message);
    if (!record || record->kind != RecordKind::commit) return;
    commits.emplace(record->commit.version, message.offset);
  });
  return commits;
}

}  // namespace

TEST_CASE("a written batch is in the log before the first commit of a later trainer", "[kafka]") {
  const KafkaCluster cluster;
  for (int round = 0; round < 8; ++round) {
    const std::string spec = cluster.spec("rows-" + std::to_string(round));
    KafkaSink one{spec}, later{spec};
    for (KafkaSink* const rows : {&one, &later}) rows->begin(four_wide_schema());
    std::atomic<bool> begun = false;
    Version written;
    std::thread older{[&] {
      const auto write = [&](Version next) {
        return !refusal_of([&] { one.write(batch_of_rows(next, written, 0, 200, 1)); });
      };
      for (Version next{1, 1}; write(next); ++next.step) {
        written = next;
        begun = true;
      }
      begun = true;
    }};
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{round});
    const auto refusal = refusal_of([&] { later.write(batch_of_rows({2, 1}, {}, 0, 1, 2)); });
    older.join();
    REQUIRE(!refusal);
    REQUIRE(written != Version{});
    const auto commits = commits_of(spec);
    CAPTURE(round, written.step);
    CHECK(commits.at(written) < commits.at({2, 1}));
  }
}

TEST_CASE("an overtaken trainer that wrote rows requests one snapshot of the later trainer",
          "[kafka]") {
  const KafkaCluster cluster;
  KafkaSink one{cluster.spec("rows"), always()}, later{cluster.spec("rows"), always()};
  KafkaSink never_wrote{cluster.spec("rows"), always()};
  for (KafkaSink* const rows : {&one, &later, &never_wrote}) rows->begin(four_wide_schema());
  one.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  later.write(batch_of_rows({2, 1}, {}, 0, 10, 2));
  for (int look = 0; look < 2; ++look) {
    const auto refusal = refusal_of([&] { never_wrote.audit(0, 1); });
    REQUIRE(refusal);
    CHECK(refusal->kind == SinkError::Kind::overtaken);
    CHECK(later.snapshot_request() == 0);
  }
  const auto refusal = refusal_of([&] { one.audit(0, 1); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::overtaken);
  const std::uint64_t request = later.snapshot_request();
  CHECK(request > 0);
  CHECK(refusal_of([&] { one.write(batch_of_rows({1, 2}, {1, 1}, 0, 10, 1)); }));
  CHECK(later.snapshot_request() == request);
}

}  // namespace millrace::test
