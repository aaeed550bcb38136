// Reads all rows of a topic in two passes, while others write and brokers compact.
#include "sink/kafka/topic/read_rows.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/streamer/sink/kafka/topic_model.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

void go_through(const TopicModel& topic,
                const std::function<void(const sink::TopicMessage&)>& visit) {
  for (std::uint32_t part = 0; part < topic.parts(); ++part) {
    for (const auto& message : topic.part(part)) TopicModel::read(message, part, visit);
  }
}

/// Writes rows that the seed draws, with the version of this step.
void write(TopicModel& topic, std::map<std::int64_t, Version>& newest, std::mt19937_64& random,
           std::uint64_t step) {
  const auto first = static_cast<std::int64_t>(random() % 50);
  const std::int64_t end = first + static_cast<std::int64_t>(random() % 20);
  const StepBatch batch =
      batch_of_rows({1, step}, {1, step - 1}, first, end, static_cast<float>(step));
  topic.put(batch);
  if (random() % 3 == 0) topic.put_rows(batch);  // the write was tried again
  for (std::int64_t row = first; row < end; ++row) newest[row] = {1, step};
}

}  // namespace

TEST_CASE("each row is visited once, as old as the start of the read or newer", "[kafka]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t drawn_from = seed() * 1000 + i;
    CAPTURE(drawn_from);
    std::mt19937_64 random{drawn_from};
    TopicModel topic{static_cast<std::uint32_t>(1 + random() % 4)};
    topic.put_schema();
    std::map<std::int64_t, Version> newest;
    std::uint64_t step = 0;
    while (step < 10) write(topic, newest, random, ++step);
    sink::TopicRows rows;
    go_through(topic, [&](const sink::TopicMessage& message) { rows.find(message); });
    REQUIRE(rows.left() == newest.size());

    std::map<std::int64_t, Version> later = newest;
    for (std::uint64_t more = random() % 5; more > 0; --more) write(topic, later, random, ++step);
    if (random() % 2 == 0) topic.compact(0, topic.ends()[0]);
    std::map<std::int64_t, Version> visited;
    go_through(topic, [&](const sink::TopicMessage& message) {
      rows.visit(message, [&](const RowRecord& row) {
        REQUIRE(row.weights[0] == static_cast<float>(row.version.step));
        REQUIRE(visited.emplace(row.row, row.version).second);
      });
    });
    REQUIRE(rows.left() == 0);
    REQUIRE(visited.size() == newest.size());
    for (const auto& [row, version] : visited) {
      REQUIRE(version >= newest.at(row));
      REQUIRE(version <= later.at(row));
    }
  }
}

TEST_CASE("foreign rows are not visited", "[kafka]") {
  TopicModel topic{1};
  topic.put_schema();
  topic.put(batch_of_rows({1, 1}, {}, 0, 4, 1));
  topic.replace(0, 1, std::vector<std::byte>(100, std::byte{7}));
  StepBatch wider;
  const std::vector<float> numbers(9);
  wider.add({.version = {9, 9}, .row = 2, .weights = numbers});
  topic.put_rows(wider);
  sink::TopicRows rows;
  go_through(topic, [&](const sink::TopicMessage& message) { rows.find(message); });
  std::size_t visited = 0;
  go_through(topic, [&](const sink::TopicMessage& message) {
    rows.visit(message, [&](const RowRecord&) { ++visited; });
  });
  CHECK(visited == 3);
  CHECK(rows.left() == 0);
}

}  // namespace millrace::test
