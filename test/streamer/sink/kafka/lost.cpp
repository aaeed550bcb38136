// A topic whose messages are permanently lost, or were replaced by others.
#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/streamer/applier.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "sink/kafka/topic/assembly.hpp"
#include "sink/kafka/topic/keys.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/streamer/sink/kafka/topic_model.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Reads a topic model, with the partitions mixed by a seed.
class ModelSource final : public RecordSource {
 public:
  ModelSource(const TopicModel& topic, std::uint64_t seed) : topic_(topic), random_(seed) {}

  [[nodiscard]] std::string name() const override { return "topic"; }
  void seek(std::string_view position) override {
    ++seeks;
    sink::TopicPosition start{.offsets = std::vector<std::int64_t>(topic_.parts())};
    if (!position.empty()) start = sink::parse_topic_position(position);
    offsets_ = start.offsets;
    assembly_.emplace(start, "topic", [this] { return topic_.ends(); });
    assembly_->take_schema(four_wide_schema());
  }
  [[nodiscard]] std::optional<StreamSchema> schema() override { return four_wide_schema(); }
  [[nodiscard]] std::optional<Next> next(std::chrono::nanoseconds) override {
    while (true) {
      if (auto next = assembly_->take()) return next;
      std::vector<std::uint32_t> left;
      for (std::uint32_t part = 0; part < topic_.parts(); ++part) {
        if (offsets_[part] < topic_.ends()[part]) left.push_back(part);
      }
      if (left.empty()) return std::nullopt;
      read(left[random_() % left.size()]);
    }
  }
  void take_schema(const StreamSchema& schema) override { assembly_->take_schema(schema); }
  [[nodiscard]] Left left() override {
    Left left{.unit = "messages"};
    for (std::uint32_t part = 0; part < topic_.parts(); ++part) {
      left.count += static_cast<std::uint64_t>(topic_.ends()[part] - offsets_[part]);
    }
    return left;
  }
  void ask_for_snapshot() override { ++asked; }

  /// The offset at which reading of this partition continues.
  [[nodiscard]] std::int64_t offset(std::uint32_t part) const { return offsets_[part]; }

  int asked = 0, seeks = 0;

 private:
  void read(std::uint32_t part) {
    const auto& messages = topic_.part(part);
    const auto next =
        std::ranges::lower_bound(messages, offsets_[part], {}, &TopicModel::Message::offset);
    offsets_[part] = next == messages.end() ? topic_.ends()[part] : next->offset + 1;
    if (next == messages.end()) return;
    TopicModel::read(*next, part,
                     [&](const sink::TopicMessage& message) { assembly_->add(message); });
  }

  const TopicModel& topic_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> offsets_;
  std::optional<sink::TopicAssembly> assembly_;
};

using Values = std::map<std::int64_t, float>;

/// Ranks that write rows of their own (row % ranks), and all these rows again on request.
class Trainers {
 public:
  explicit Trainers(std::uint64_t seed)
      : random_(seed), topic(1 + seed % 4), ranks_(1 + seed / 4 % 3) {
    topic.put_schema();
  }

  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  [[nodiscard]] bool mine(std::uint32_t rank, std::int64_t row) const {
    return row % ranks_ == rank;
  }
  void step(std::uint32_t rank, int asked) {
    StepBatch batch;
    batch.commit = {.version = {1, ++step_},
                    .after = newest_[rank],
                    .step = step_,
                    .rank = rank,
                    .ranks = ranks_};
    const bool all = newest_[rank] == Version{} || answered_[rank] < asked;
    if (all) batch.commit.after = {};
    answered_[rank] = asked;
    batch.commit.answers = static_cast<std::uint64_t>(asked);
    for (std::int64_t row = rank; row < 30; row += ranks_) {
      if (random_() % 3 == 0)
        table[row] = static_cast<float>(step_);
      else if (!all || !table.contains(row))
        continue;
      const std::array<float, 4> numbers{table[row]};
      batch.add({.version = {1, step_}, .row = row, .weights = numbers});
    }
    newest_[rank] = {1, step_};
    as_written[{1, step_}] = table;
    topic.put(batch);
  }

 private:
  std::mt19937_64 random_;

 public:
  TopicModel topic;
  Values table;                          ///< now
  std::map<Version, Values> as_written;  ///< after each commit

 private:
  std::uint32_t ranks_;
  std::uint64_t step_ = 0;
  std::map<std::uint32_t, Version> newest_;
  std::map<std::uint32_t, int> answered_;
};

/// A record that somebody else wrote in place of one of ours.
std::vector<std::byte> forged(std::vector<std::byte> record, std::uint64_t how) {
  const Version late{~0ULL, ~0ULL};
  const std::array<float, 4> numbers{7, 7, 7, 7};
  std::vector<std::byte> other;
  switch (how % 6) {
    case 0:
      record[record.size() / 2] ^= std::byte{1};
      return record;
    case 1:
      return std::vector<std::byte>(how % 300, std::byte{7});
    case 2:
      append_record(other, RowRecord{.version = late, .table = 3, .row = 1, .weights = numbers});
      return other;
    case 3:
      append_record(other, RowRecord{.version = late, .row = 1 << 30, .weights = numbers});
      return other;
    case 4:
      append_record(other, StepCommit{.version = late, .rank = 9, .ranks = 10, .rows = ~0ULL});
      return other;
    default:
      record.resize(record.size() + 8);
      return record;
  }
}

struct Spoiling {
  bool lose = false;  ///< false: forge
  bool commits = false;
};

/// Spoils one message that was not read yet. @return whether it found one
bool spoil(TopicModel& topic, const ModelSource& source, std::mt19937_64& random,
           const Spoiling& how) {
  const auto part = static_cast<std::uint32_t>(random() % topic.parts());
  const auto& messages = topic.part(part);
  const auto begin =
      std::ranges::lower_bound(messages, source.offset(part), {}, &TopicModel::Message::offset);
  if (begin == messages.end()) return false;
  const auto first = static_cast<std::size_t>(begin - messages.begin());
  const std::size_t at = first + random() % (messages.size() - first);
  if ((messages[at].key == sink::commit_key(messages[at].rank)) != how.commits) return false;
  if (how.lose) {
    topic.lose(part, at);
  } else {
    topic.replace(part, at, forged(messages[at].record, random()));
  }
  return true;
}

/// Rows of a rank whose commit reports none as missing are exactly the rows that were written.
void check_truth(MemorySink& copy, const Trainers& trainers) {
  for (const auto& [rank, commit] : copy.state().commits) {
    if (commit.missing > 0) continue;
    const Values& values = trainers.as_written.at(commit.version);
    std::size_t there = 0;
    copy.read([&, rank = rank](const RowRecord& row) {
      if (!trainers.mine(rank, row.row)) return;
      REQUIRE(row.weights[0] == values.at(row.row));
      ++there;
    });
    REQUIRE(there == static_cast<std::size_t>(std::ranges::count_if(
                         values, [&](const auto& row) { return trainers.mine(rank, row.first); })));
  }
}

bool always() { return true; }

/// @return the number of requested snapshots
int run(std::uint64_t drawn_from, bool compacted) {
  VirtualMachine machine;
  std::mt19937_64 random{drawn_from};
  Trainers trainers{drawn_from};
  MemorySink copy;
  // If a row and an earlier commit are both lost, the count of rows may still match. So one run
  // loses either rows or commits.
  const Spoiling how{.lose = !compacted && drawn_from % 3 == 0, .commits = drawn_from % 2 == 0};
  int asked = 0, spoilt = 0;
  for (int life = 0; life < 4; ++life) {  // lives of the applier
    ModelSource source{trainers.topic, random()};
    Applier applier{source, copy, machine.executor()};
    (void)applier.apply_next(1s, always);
    for (int round = 0; round < 12; ++round) {
      const auto rank = static_cast<std::uint32_t>(random() % trainers.ranks());
      trainers.step(rank, asked + source.asked);
      const bool spoils = life < 3 && random() % 4 == 0;
      if (spoils && spoil(trainers.topic, source, random, how)) ++spoilt;
      if (compacted && random() % 4 == 0) trainers.topic.compact(0, trainers.topic.ends()[0]);
      if (random() % 2 == 0) continue;
      while (applier.apply_next(1s, always)) check_truth(copy, trainers);
    }
    while (applier.apply_next(1s, always)) check_truth(copy, trainers);
    if (life == 3) {
      for (int last = 0; last < 5; ++last) {
        for (std::uint32_t rank = 0; rank < trainers.ranks(); ++rank) {
          trainers.step(rank, asked + source.asked);
        }
        while (applier.apply_next(1s, always)) check_truth(copy, trainers);
      }
      REQUIRE(applier.report().complete);
    }
    REQUIRE(source.seeks == 1);
    REQUIRE(applier.report().snapshots == static_cast<std::uint64_t>(source.asked));
    asked += source.asked;
  }
  CHECK(values_in(copy) == trainers.table);
  if (!compacted) CHECK(asked <= spoilt);
  return asked;
}

}  // namespace

TEST_CASE("lost rows are counted and cause one request, and the copy becomes whole", "[kafka]") {
  int asked = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t drawn_from = seed() * 1000 + i;
    CAPTURE(drawn_from);
    asked += run(drawn_from, false);
  }
  CHECK(asked > 100);
}

TEST_CASE("a message that was overwritten is never taken for a compacted message", "[kafka]") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t drawn_from = seed() * 1000 + i;
    CAPTURE(drawn_from);
    (void)run(drawn_from, true);
  }
}

TEST_CASE("a foreign commit of a later version does not block a reader", "[kafka]") {
  TopicModel topic{2};
  topic.put_schema();
  topic.put(batch_of_rows({1, 1}, {}, 0, 10, 1));
  StepBatch strange;
  strange.commit = {.version = {~0ULL, 1}, .after = {1, 1}};
  topic.put_marks(strange, [](std::uint32_t part) { return part == 1; });
  topic.put(batch_of_rows({1, 2}, {1, 1}, 0, 10, 2));
  topic.put(batch_of_rows({1, 3}, {1, 2}, 0, 10, 3));
  ModelSource source{topic, seed()};
  VirtualMachine machine;
  MemorySink copy;
  Applier applier{source, copy, machine.executor()};
  while (applier.apply_next(1s, always)) {
  }
  CHECK(copy.state().commits.at(0).version == Version{1, 3});
  CHECK(applier.report().complete);
  for (const auto& [row, value] : values_in(copy)) CHECK(value == 3);
}
