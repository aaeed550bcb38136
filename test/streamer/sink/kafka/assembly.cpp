// Whole batches from partitions, for any order of reading, after messages were written twice or
// partly, and after compaction.
#include "sink/kafka/topic/assembly.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "millrace/streamer/memory_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/streamer/sink/kafka/topic_model.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using sink::TopicAssembly;
using sink::TopicMessage;
using sink::TopicPosition;

/// Reads a topic with its partitions in any order. It can resume at a position.
class Reader {
 public:
  explicit Reader(const TopicModel& topic, bool cut = false) : topic_(topic) {
    TopicPosition start{.offsets = std::vector<std::int64_t>(topic.parts()), .whole = !cut};
    for (std::uint32_t i = 0; cut && i < topic.parts(); ++i) {
      start.offsets[i] = topic.part(i).front().offset;
    }
    begin(start);
  }

  void resume(const std::string& position) {
    begin(sink::parse_topic_position(position));
    assembly_->take_schema(four_wide_schema());
  }

  /// Reads one message of this partition. @return false if none is left
  bool read(std::uint32_t part) {
    const auto& messages = topic_.part(part);
    const auto next =
        std::ranges::lower_bound(messages, offsets_[part], {}, &TopicModel::Message::offset);
    if (next == messages.end()) return false;
    offsets_[part] = next->offset + 1;
    TopicModel::read(*next, part, [&](const TopicMessage& message) { assembly_->add(message); });
    return true;
  }

  /// Reads all messages, with the partitions in a drawn order.
  std::vector<RecordSource::Next> read_all(std::mt19937_64& random) {
    std::vector<RecordSource::Next> all;
    std::vector<std::uint32_t> left(topic_.parts());
    for (std::uint32_t i = 0; i < topic_.parts(); ++i) left[i] = i;
    while (!left.empty()) {
      const std::size_t which = random() % left.size();
      for (std::size_t some = random() % 20 + 1; some > 0; --some) {
        if (read(left[which])) continue;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      }
      while (auto next = take()) all.push_back(std::move(*next));
    }
    return all;
  }

  std::optional<RecordSource::Next> take() { return assembly_->take(); }

 private:
  void begin(const TopicPosition& start) {
    offsets_ = start.offsets;
    assembly_.emplace(start, "topic", [this] { return topic_.ends(); });
  }

  const TopicModel& topic_;
  std::vector<std::int64_t> offsets_;
  std::optional<TopicAssembly> assembly_;
};

using Values = std::map<std::int64_t, std::pair<Version, float>>;

void fold(Values& values, const StepBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RowRecord row = batch.row(i);
    auto& kept = values[row.row];
    if (kept.first < row.version) kept = {row.version, row.weights[0]};
  }
}

/// Joins two batches of the same rank. A row in both has the newer record.
StepBatch joined(const StepBatch& first, const StepBatch& next) {
  StepBatch both;
  std::set<std::int64_t> newer;
  for (std::size_t i = 0; i < next.size(); ++i) {
    both.add_encoded(next.record(i));
    newer.insert(next.row(i).row);
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!newer.contains(first.row(i).row)) both.add_encoded(first.record(i));
  }
  const std::uint64_t rows = both.size();
  both.commit = next.commit;
  both.commit.after = first.commit.after;
  both.commit.rows = rows;
  return both;
}

/// Ranks that write rows of their own (row % ranks) and fail now and then.
class Writing {
 public:
  Writing(std::uint64_t seed, bool failing)
      : random_(seed), failing_(failing), topic(1 + seed % 4), newest(1 + seed % 3) {
    topic.put_schema();
    for (std::uint64_t left = 5 + random_() % 30; left > 0; --left) step(random_() % newest.size());
  }

  [[nodiscard]] std::size_t ranks() const { return newest.size(); }
  /// The values of a rank's rows after a commit.
  [[nodiscard]] const Values& values_at(std::uint32_t rank, Version version) const {
    return as_written.at({rank, version});
  }
  [[nodiscard]] const std::vector<StepBatch>& batches() const { return written; }

 private:
  StepBatch draw(std::size_t rank) {
    const bool anew = newest[rank] == Version{} || random_() % 10 == 0;
    const Version version{newest[rank].epoch + (anew ? 1 : 0), anew ? 1 : newest[rank].step + 1};
    StepBatch batch;
    batch.commit.version = version;
    batch.commit.after = newest[rank];
    batch.commit.rank = static_cast<std::uint32_t>(rank);
    batch.commit.ranks = static_cast<std::uint32_t>(ranks());
    for (std::int64_t row = 0; row < 12; ++row) {
      if (random_() % 3 != 0) continue;
      const std::array<float, 4> numbers{static_cast<float>(random_() % 1000)};
      batch.add({.version = version,
                 .row = row * static_cast<std::int64_t>(ranks()) + static_cast<std::int64_t>(rank),
                 .weights = numbers});
    }
    newest[rank] = version;
    return batch;
  }

  void step(std::size_t rank) {
    StepBatch batch = draw(rank);
    Values values = last[rank];
    fold(values, batch);
    for (std::uint64_t tries = failing_ ? random_() % 3 : 0; tries > 0; --tries) {
      // Several tries in different partitions may have written the whole batch.
      as_written[{static_cast<std::uint32_t>(rank), batch.commit.version}] = values;
      if (random_() % 2 == 0) {
        topic.put_rows(batch, [&](std::size_t) { return random_() % 2 == 0; });
      } else {
        topic.put_rows(batch);
        const std::uint32_t but = static_cast<std::uint32_t>(random_() % topic.parts());
        topic.put_marks(batch,
                        [&](std::uint32_t part) { return part != but && random_() % 2 == 0; });
      }
      if (random_() % 2 == 0) {  // a later step joins the retry
        const StepBatch more = draw(rank);
        fold(values, more);
        batch = joined(batch, more);
      }
    }
    topic.put(batch);
    written.push_back(batch);
    as_written[{static_cast<std::uint32_t>(rank), batch.commit.version}] = values;
    last[rank] = values;
  }

  std::mt19937_64 random_;
  bool failing_;

 public:
  TopicModel topic;
  std::vector<Version> newest;
  std::map<std::size_t, Values> last;
  std::map<std::pair<std::uint32_t, Version>, Values> as_written;
  std::vector<StepBatch> written;
};

Values rows_of(MemorySink& sink, std::size_t ranks, std::uint32_t rank) {
  Values values;
  sink.read([&](const RowRecord& row) {
    if (static_cast<std::size_t>(row.row) % ranks != rank) return;
    values[row.row] = {row.version, row.weights[0]};
  });
  return values;
}

/// Applies a batch. If its commit reports no missing rows, checks that the copy is right.
void apply(MemorySink& copy, const Writing& writing, const RecordSource::Next& next) {
  copy.write(next.batch, next.position);
  const StepCommit& commit = next.batch.commit;
  REQUIRE(next.batch.size() == commit.rows);
  if (commit.missing > 0) return;
  REQUIRE(rows_of(copy, writing.ranks(), commit.rank) ==
          writing.values_at(commit.rank, commit.version));
}

void check_end(MemorySink& copy, const Writing& writing) {
  for (std::uint32_t rank = 0; rank < writing.ranks(); ++rank) {
    if (writing.newest[rank] == Version{}) continue;
    const StepCommit commit = copy.state().commits.at(rank);
    REQUIRE(commit.version == writing.newest[rank]);
    REQUIRE(rows_of(copy, writing.ranks(), rank) == writing.values_at(rank, writing.newest[rank]));
  }
}

void for_seeds(const std::function<void(std::uint64_t)>& body) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t drawn_from = seed() * 1000 + i;
    CAPTURE(drawn_from);
    body(drawn_from);
  }
}

}  // namespace

TEST_CASE("batches are read as written, in any order of the partitions", "[kafka]") {
  for_seeds([](std::uint64_t drawn_from) {
    const Writing writing{drawn_from, false};
    std::mt19937_64 random{drawn_from};
    Reader reader{writing.topic};
    auto came = reader.read_all(random);
    REQUIRE(came.size() == writing.batches().size());
    for (std::uint32_t rank = 0; rank < writing.ranks(); ++rank) {
      std::vector<StepCommit> sent, returned;
      for (const StepBatch& batch : writing.batches()) {
        if (batch.commit.rank == rank) sent.push_back(batch.commit);
      }
      for (const auto& next : came) {
        if (next.batch.commit.rank == rank) returned.push_back(next.batch.commit);
      }
      REQUIRE(sent == returned);
    }
    MemorySink copy;
    for (const auto& next : came) apply(copy, writing, next);
    check_end(copy, writing);
  });
}

TEST_CASE("batches that were written twice or in part are assembled to complete batches",
          "[kafka]") {
  for_seeds([](std::uint64_t drawn_from) {
    const Writing writing{drawn_from, true};
    std::mt19937_64 random{drawn_from};
    MemorySink copy;
    for (const auto& next : Reader{writing.topic}.read_all(random)) apply(copy, writing, next);
    check_end(copy, writing);
  });
}

TEST_CASE("a compacted topic ends with the same rows and reports missing rows until then",
          "[kafka]") {
  std::uint64_t with_holes = 0;
  for_seeds([&](std::uint64_t drawn_from) {
    Writing writing{drawn_from, drawn_from % 2 == 0};
    std::mt19937_64 random{drawn_from};
    for (std::uint32_t part = 0; part < writing.topic.parts(); ++part) {
      writing.topic.compact(
          part, static_cast<std::int64_t>(
                    random() % static_cast<std::uint64_t>(writing.topic.ends()[part] + 1)));
    }
    MemorySink copy;
    for (const auto& next : Reader{writing.topic}.read_all(random)) {
      apply(copy, writing, next);
      with_holes += next.batch.commit.missing > 0 ? 1 : 0;
    }
    // A commit that failed in some partitions may have replaced the previous commit in the others.
    const bool failing = drawn_from % 2 == 0;
    if (!failing || copy.state().missing() == 0) check_end(copy, writing);
  });
  CHECK(with_holes > 100);
}

TEST_CASE("a reader resumes at any position, also in a compacted topic", "[kafka]") {
  for_seeds([](std::uint64_t drawn_from) {
    Writing writing{drawn_from, drawn_from % 2 == 0};
    std::mt19937_64 random{drawn_from};
    MemorySink copy;
    for (unsigned times = 0; times < 4; ++times) {
      Reader reader{writing.topic};
      if (!copy.state().position.empty()) reader.resume(copy.state().position);
      const auto came = reader.read_all(random);
      const std::size_t until = came.empty() ? 0 : random() % (came.size() + 1);
      for (std::size_t i = 0; i < until; ++i) apply(copy, writing, came[i]);
      if (times == 1) {
        for (std::uint32_t part = 0; part < writing.topic.parts(); ++part) {
          writing.topic.compact(part, writing.topic.ends()[part] / 2);
        }
      }
    }
    Reader last{writing.topic};
    if (!copy.state().position.empty()) last.resume(copy.state().position);
    for (const auto& next : last.read_all(random)) apply(copy, writing, next);
    if (drawn_from % 2 != 0 || copy.state().missing() == 0) check_end(copy, writing);
  });
}

TEST_CASE("a row that is absent and never replaced is reported as lost", "[kafka]") {
  TopicModel topic{1};
  topic.put_schema();
  topic.put(batch_of_rows({1, 1}, {}, 0, 10, 1));
  topic.put(batch_of_rows({1, 2}, {1, 1}, 0, 10, 2));
  topic.lose(0, 4);
  std::mt19937_64 random{seed()};
  const auto came = Reader{topic}.read_all(random);
  REQUIRE(came.size() == 2);
  CHECK_THAT(came[0].lost, ContainsSubstring("of 10 rows of rank 0 with 1:1 9 are there"));
  CHECK(came[0].batch.size() == 9);
  CHECK(came[0].batch.commit.missing == 1);
  CHECK(came[1].lost.empty());
}

TEST_CASE("a commit that is absent and never replaced is reported as lost", "[kafka]") {
  TopicModel topic{1};
  topic.put_schema();
  topic.put(batch_of_rows({1, 1}, {}, 0, 2, 1));
  topic.put(batch_of_rows({1, 3}, {1, 2}, 0, 2, 2));
  std::mt19937_64 random{seed()};
  const auto came = Reader{topic}.read_all(random);
  REQUIRE(came.size() == 2);
  CHECK_THAT(came[1].lost, ContainsSubstring("continues 1:2, but follows 1:1"));
  CHECK(came[1].batch.commit.missing > 0);
}

TEST_CASE("a topic whose beginning was dropped starts with the first complete batch", "[kafka]") {
  TopicModel topic{2};
  topic.put_schema();
  for (std::uint64_t step = 1; step < 6; ++step) {
    topic.put_schema();
    topic.put(
        batch_of_rows({1, step}, {step > 1 ? 1U : 0U, step - 1}, 0, 40, static_cast<float>(step)));
  }
  topic.put(batch_of_rows({1, 9}, {}, 0, 40, 9));
  for (std::uint32_t part = 0; part < 2; ++part) {
    topic.drop(part, topic.ends()[part] / 3);
  }
  std::mt19937_64 random{seed()};
  const auto came = Reader{topic, true}.read_all(random);
  REQUIRE(came.size() >= 3);
  for (const auto& next : came) CHECK(next.batch.size() == 40);
  CHECK(came.front().batch.commit.version > Version{1, 1});
  CHECK(came.front().batch.commit.after.step + 1 == came.front().batch.commit.version.step);
  CHECK(came.back().batch.commit.after == Version{});
  CHECK(came.back().batch.commit.version == Version{1, 9});
}

TEST_CASE("an incomplete batch of a rank that no longer exists does not block a reader",
          "[kafka]") {
  TopicModel topic{2};
  topic.put_schema();
  StepBatch of_second = batch_of_rows({1, 1}, {}, 0, 30, 1);
  of_second.commit.rank = 1;
  of_second.commit.ranks = 2;
  topic.put_rows(of_second);  // then its trainer dies
  topic.put(batch_of_rows({2, 1}, {}, 0, 30, 2));
  std::mt19937_64 random{seed()};
  const auto came = Reader{topic}.read_all(random);
  REQUIRE(came.size() == 1);
  CHECK(sink::parse_topic_position(came.front().position).offsets == topic.ends());
}

TEST_CASE("a foreign message is skipped and reported", "[kafka]") {
  const auto strange = [](std::int32_t part, std::uint32_t rank, std::vector<std::byte> record) {
    TopicAssembly assembly{
        {.offsets = {0, 0}}, "topic", [] { return std::vector<std::int64_t>{}; }};
    assembly.add({.part = part, .rank = rank, .record = record});
    CHECK(!assembly.take());
    return assembly.strange();
  };
  const auto record_of = [](const StepCommit& commit) {
    std::vector<std::byte> record;
    append_record(record, commit);
    return record;
  };
  const StepCommit commit{.version = {1, 1}, .part = 1, .parts = 2};
  StepCommit of_many = commit, of_all = commit;
  of_many.parts = ~0U;
  of_all.rows = ~0ULL;
  CHECK_THAT(strange(0, 0, std::vector<std::byte>(100, std::byte{7})),
             ContainsSubstring("offset 0 of partition 0"));
  CHECK(!strange(0, 0, {}).empty());
  CHECK(!strange(0, 0, record_of(commit)).empty());
  CHECK(!strange(1, 3, record_of(commit)).empty());
  CHECK(!strange(1, 0, record_of(of_many)).empty());
  CHECK(!strange(1, 0, record_of(of_all)).empty());
  CHECK(strange(1, 0, record_of(commit)).empty());
}

TEST_CASE("a topic position is read back, and other text is refused", "[kafka]") {
  const TopicPosition position{.offsets = {0, 7, std::int64_t{1} << 60},
                               .commits = {{0, {1, 2}}, {~0U, {~0ULL, ~0ULL}}},
                               .whole = false,
                               .gaps = {1},
                               .holes = 3,
                               .filled = {1, 2, 3}};
  CHECK(sink::parse_topic_position(sink::to_text(position)) == position);
  CHECK(sink::parse_topic_position(sink::to_text({})) == TopicPosition{});
  for (const char* text :
       {"", "{}", "[]", "7", "{\"offsets\":[-1],\"marks\":[],\"whole\":true}",
        "{\"offsets\":[1.5],\"marks\":[],\"whole\":true}",
        "{\"offsets\":[],\"marks\":[[1]],\"whole\":true}",
        "{\"offsets\":{\"a\":1},\"marks\":[],\"whole\":true}", "{\"offsets\":[],\"marks\":[]}",
        "{\"offsets\":[],\"marks\":[[-1,1,1]],\"whole\":true}",
        "{\"offsets\":[],\"marks\":[],\"whole\":1}",
        "{\"offsets\":[],\"marks\":[],\"whole\":true,\"whole\":false}",
        "{\"offsets\":[],\"marks\":[],\"whole\":true,\"gaps\":[4294967296]}",
        "{\"offsets\":[],\"marks\":[],\"whole\":true,\"holes\":1}"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sink::parse_topic_position(text), std::invalid_argument);
  }
}

}  // namespace millrace::test
