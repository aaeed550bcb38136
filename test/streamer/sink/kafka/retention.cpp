// An applier that is too late. The topic has dropped messages that the copy does not have.
#include <chrono>

#include "millrace/device/thread_executor.hpp"
#include "millrace/streamer/applier.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/stream_status.hpp"
#include "millrace/streamer/verify.hpp"
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

/// Reads ahead by about one fetch, because messages that are read ahead are not lost.
constexpr const char* kReadsLittle = "&queued.min.messages=1&queued.max.messages.kbytes=1";
constexpr std::int64_t kAll = 10'000;

/// A topic of one partition, and a trainer that writes to it.
struct Topic {
  Topic() {
    cluster.order("topic rows 1");
    cluster.order("topic rows.requests 1");
    rows.begin(four_wide_schema());
    rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  }

  /// Writes more than the mock cluster keeps, so that the schema and the first commit are dropped.
  void outgrow() {
    for (std::uint64_t step = 2; step < 11; ++step) {
      rows.write(batch_of_rows({1, step}, {1, step - 1}, 0, kAll, static_cast<float>(step)));
    }
  }
  void answer() {
    StepBatch all = batch_of_rows({1, 20}, {}, 0, kAll, 20);
    all.commit.answers = KafkaSink{spec()}.snapshot_request();
    CHECK(all.commit.answers > 0);
    rows.write(all);
  }
  [[nodiscard]] std::string spec(const std::string& settings = "") const {
    return cluster.spec("rows", settings);
  }

  KafkaCluster cluster;
  KafkaSink rows{cluster.spec("rows")};
};

struct Applying {
  Applying(const std::string& spec, Sink& copy) : source(spec), applier(source, copy, executor) {}

  void apply_all() {
    do {
      while (applier.apply_next(50ms, always)) {
      }
    } while (applier.report().has_schema && applier.left(always)->count > 0);
  }
  static bool always() { return true; }

  ThreadExecutor executor;
  KafkaSource source;
  Applier applier;
};

void check_lacks(Applying& applying, const Topic& topic, Sink& copy) {
  CHECK(applying.applier.report().gaps == 1);
  CHECK(applying.applier.report().snapshots == 1);
  CHECK_FALSE(applying.applier.report().complete);
  CHECK(copy.state().missing() > 0);
  CHECK(KafkaSink{topic.spec()}.snapshot_request() > 0);
}

void check_has_all(Applying& applying, Sink& copy) {
  CHECK(applying.applier.report().complete);
  CHECK(applying.applier.left(Applying::always)->count == 0);
  CHECK(applying.applier.report().snapshots <= 1);
  const auto values = values_in(copy);
  CHECK(values.size() == static_cast<std::size_t>(kAll));
  CHECK(std::ranges::all_of(values, [](const auto& row) { return row.second == 20; }));
}

}  // namespace

TEST_CASE("an applier that is overrun by retention requests a snapshot and gets all rows",
          "[kafka]") {
  const bool runs = GENERATE(true, false);  // the applier runs meanwhile, or is restarted
  CAPTURE(runs);
  Topic topic;
  MemorySink copy;
  auto applying = std::make_unique<Applying>(topic.spec(runs ? kReadsLittle : ""), copy);
  REQUIRE(applying->applier.apply_next(10s, Applying::always));
  if (!runs) applying.reset();
  topic.outgrow();
  if (!runs) applying = std::make_unique<Applying>(topic.spec(), copy);
  applying->apply_all();
  check_lacks(*applying, topic, copy);
  topic.answer();
  applying->apply_all();
  check_has_all(*applying, copy);
}

TEST_CASE("a new copy of a topic without a schema waits for the requested snapshot", "[kafka]") {
  Topic topic;
  topic.outgrow();
  MemorySink copy;
  Applying applying{topic.spec(), copy};
  applying.apply_all();
  CHECK_FALSE(applying.applier.report().has_schema);
  CHECK_FALSE(applying.applier.report().complete);
  topic.answer();
  applying.apply_all();
  check_has_all(applying, copy);
}

TEST_CASE("a topic that has lost its schema is not reported as empty", "[kafka]") {
  Topic topic;
  topic.outgrow();
  KafkaSink rows{topic.spec()};
  CHECK_THROWS_WITH(verify_copy(rows, {}), ContainsSubstring("schema of their tables was deleted"));
  CHECK_THROWS_WITH(status_of(rows, 0), ContainsSubstring("schema of their tables was deleted"));
  KafkaSink none{topic.cluster.spec("none")};
  CHECK_THROWS_WITH(verify_copy(none, {}), ContainsSubstring("no stream was written to it"));
  CHECK(status_of(none, 0).empty);
}

TEST_CASE("the messages left in a topic are counted until they are read", "[kafka]") {
  KafkaCluster cluster;
  KafkaSink rows{cluster.spec("rows")};
  KafkaSource source{cluster.spec("rows")};
  CHECK(source.left().count == 0);
  rows.begin(four_wide_schema());
  rows.write(batch_of_rows({1, 1}, {}, 0, 40, 1));
  CHECK(source.left().count == 52);  // 40 rows; per partition the schema, twice, and the commit
  REQUIRE(source.schema());
  REQUIRE(source.next(10s));
  CHECK(source.left().count == 0);
  rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 10, 2));
  CHECK(source.left().count == 14);
}

}  // namespace millrace::test
