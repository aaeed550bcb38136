#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "test/streamer/tracking/tracker_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using RowName = TrainingRig::RowName;

/// What a tracker should know about a consumer, as plain sets of bits.
struct Consumer {
  std::string name;
  std::size_t rows_of_bit = 1;
  std::set<std::uint64_t> now;
  std::optional<std::set<std::uint64_t>> closed{};
  std::uint64_t cursor = 0, cut = 0;

  [[nodiscard]] std::set<std::uint64_t>& next() { return closed ? *closed : now; }
};

/// A random program over tables and their consumers. It compares the tracker with the plain sets.
class Program {
 public:
  explicit Program(std::uint64_t seed)
      : random_(seed),
        options_{.memory_cap = one_of<std::size_t>({0, 0, 90, 150}),
                 .chunk_bytes = one_of<std::size_t>({1000, 1000, 3000, std::size_t{8} << 20}),
                 .skipped_tables = one_of<std::vector<std::string>>({{}, {}, {"t1"}})},
        rig_(TrainingCase{.optimizer = one_of<OptimizerKind>(
                              {OptimizerKind::rowwise_adagrad, OptimizerKind::adam}),
                          .cached = random_() % 2 == 0,
                          .on = one_of<TrainsOn>({kTrainsOn.begin(), kTrainsOn.end()}),
                          .schedule = seed,
                          .data = seed,
                          .steps = 14},
             options_) {
    for (const TableView& table : rig_.bags->tables()) rows_ += table.rows;
  }

  void run() {
    const auto add = [&] { add_consumer(); };
    for (int i = 0; i < 2; ++i) add();
    while (steps_ < 14) {
      const auto of = random_() % 10;
      if (of < 4) {
        step();
      } else if (of == 4) {
        add();
      } else if (!consumers_.empty()) {
        Consumer& consumer = consumers_[random_() % consumers_.size()];
        if (of == 5) {
          cut(consumer);
        } else if (of == 6 && last_read_ == consumer.name) {
          put_back(consumer);
        } else {
          read(consumer);
        }
      }
      check();
    }
    for (Consumer& consumer : consumers_) {
      for (int i = 0; i < 2; ++i) read(consumer, RowContent::weights_and_state, {});
      CHECK(rig_.tracker->cursor(consumer.name) == steps_);
    }
    CHECK(rig_.races() == std::vector<std::string>{});
  }

 private:
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }

  [[nodiscard]] std::size_t bitmap_bytes(std::size_t rows_of_bit) const {
    const std::size_t bits = (rows_ + rows_of_bit - 1) / rows_of_bit;
    return (bits + 31) / 32 * 4 + 24;
  }
  [[nodiscard]] std::size_t memory() const {
    std::size_t bytes = 0;
    for (const Consumer& consumer : consumers_) {
      bytes += bitmap_bytes(consumer.rows_of_bit) * (consumer.closed ? 2 : 1);
    }
    return bytes;
  }
  [[nodiscard]] std::uint64_t row_of(const RowName& name) const {
    const TableView& table = rig_.bags->tables()[name.first - TrainingRig::kFirstTable];
    return static_cast<std::uint64_t>(table.first_row + name.second - table.row_of_whole);
  }
  /// The rows of these bits, without the rows of skipped tables.
  [[nodiscard]] std::set<RowName> rows_of(const std::set<std::uint64_t>& bits,
                                          std::size_t rows_of_bit) const {
    std::set<RowName> rows;
    for (std::size_t t = 0; t < rig_.bags->tables().size(); ++t) {
      const TableView& table = rig_.bags->tables()[t];
      if (std::ranges::count(options_.skipped_tables, table.name) != 0) continue;
      for (std::size_t row = 0; row < table.rows; ++row) {
        const auto number = static_cast<std::uint64_t>(table.first_row) + row;
        if (!bits.contains(number / rows_of_bit)) continue;
        rows.insert({TrainingRig::kFirstTable + static_cast<std::uint32_t>(t),
                     static_cast<std::int64_t>(row) + table.row_of_whole});
      }
    }
    return rows;
  }
  Stream& any_stream() {
    const std::vector<Stream*> all{&rig_.main, &rig_.tables_on(), &reader_};
    return *one_of(all);
  }

  void step() {
    rig_.step();
    ++steps_;
    for (const RowName& row : rig_.changed(steps_)) {
      for (Consumer& consumer : consumers_) consumer.now.insert(row_of(row) / consumer.rows_of_bit);
    }
  }

  void add_consumer() {
    const std::string name = fmt::format("consumer {}", names_++);
    try {
      rig_.tracker->add_consumer(name);
    } catch (const std::invalid_argument&) {
      CHECK(options_.memory_cap != 0);
      return;
    }
    consumers_.push_back({.name = name,
                          .rows_of_bit = rig_.tracker->rows_per_bit(name),
                          .now = {},
                          .cursor = steps_});
  }

  void cut(Consumer& consumer) {
    const bool room = options_.memory_cap == 0 ||
                      memory() + bitmap_bytes(consumer.rows_of_bit) <= options_.memory_cap;
    if (consumer.closed || !room) {
      CHECK_THROWS_AS(rig_.tracker->cut(consumer.name), std::invalid_argument);
      return;
    }
    CHECK(rig_.tracker->cut(consumer.name) == steps_);
    consumer.closed = std::exchange(consumer.now, {});
    consumer.cut = steps_;
  }

  void read(Consumer& consumer) {
    TrackerRig::Visits visits;
    if (random_() % 3 == 0) visits.refused = random_() % 4;
    if (random_() % 3 == 0) visits.put_back = random_() % 4;
    read(consumer,
         one_of<RowContent>({RowContent::ids, RowContent::weights, RowContent::weights_and_state}),
         visits);
  }

  void read(Consumer& consumer, RowContent content, const TrackerRig::Visits& visits) {
    const auto rows = rig_.read(consumer.name, content, any_stream(), visits);
    last_read_ = consumer.name;
    CHECK(rig_.range.after == consumer.cursor);
    CHECK(rig_.range.to == (consumer.closed ? consumer.cut : steps_));
    CHECK(rig_.compare(rows, content) == "");
    CHECK(rig_.range.rows == rows.size());
    for (const auto& chunk : rig_.chunks) CHECK(chunk.after == rig_.range.after);

    std::set<std::uint64_t>& bits = consumer.next();
    const auto expected = rows_of(bits, consumer.rows_of_bit);
    const auto delivered = names_of(rows);
    const bool put_back = visits.put_back < rig_.chunks.size();
    if (delivered != expected) {
      CHECK(rig_.chunks.size() == visits.refused);
      CHECK_FALSE(rig_.range.complete);
      CHECK(std::ranges::includes(expected, delivered));
      for (const RowName& row : delivered) bits.erase(row_of(row) / consumer.rows_of_bit);
    } else {
      CHECK(rig_.range.complete == !put_back);
      bits.clear();
    }
    if (put_back) {
      for (const std::uint64_t id : rig_.chunks[visits.put_back].ids) {
        bits.insert(id / consumer.rows_of_bit);
      }
    }
    if (!rig_.range.complete) return;
    consumer.cursor = rig_.range.to;
    consumer.closed.reset();
  }

  /// Puts back some rows of the last read.
  void put_back(Consumer& consumer) {
    for (TrackerRig::Chunk chunk : rig_.chunks) {
      std::erase_if(chunk.ids, [&](std::uint64_t) { return random_() % 2 == 0; });
      rig_.put_back(consumer.name, chunk, any_stream());
      for (const std::uint64_t id : chunk.ids) consumer.next().insert(id / consumer.rows_of_bit);
      if (!chunk.ids.empty()) consumer.cursor = std::min(consumer.cursor, chunk.after);
    }
  }

  void check() {
    for (const Consumer& consumer : consumers_) {
      CHECK(rig_.tracker->cursor(consumer.name) == consumer.cursor);
    }
    CHECK(rig_.tracker->memory() == memory());
    CHECK((options_.memory_cap == 0 || memory() <= options_.memory_cap));
  }

  std::mt19937_64 random_;
  const TrackerOptions options_;
  TrackerRig rig_;
  Stream reader_{rig_.ordered, {.name = "reader"}};
  std::size_t rows_ = 0;
  std::uint64_t steps_ = 0;
  unsigned names_ = 0;
  std::vector<Consumer> consumers_;
  std::string last_read_;
};

}  // namespace

TEST_CASE("each range of steps that is read has exactly the rows that changed in it") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    INFO("program " << 1000 * seed() + i);
    Program{1000 * seed() + i}.run();
  }
}

TEST_CASE("rows that change after a cut are read with the range after it") {
  TrackerRig rig{TrainingCase{}};
  rig.tracker->add_consumer("c");
  rig.step();
  rig.step();
  CHECK(rig.tracker->cut("c") == 2);
  rig.step();
  std::set<RowName> changed = rig.changed(1);
  changed.insert(rig.changed(2).begin(), rig.changed(2).end());
  const auto rows = rig.read("c", RowContent::weights, rig.main);
  CHECK(names_of(rows) == changed);
  CHECK(rig.range.to == 2);
  CHECK(rig.compare(rows, RowContent::weights) == "");  // with the values after step 3
  CHECK(names_of(rig.read("c", RowContent::weights, rig.main)) == rig.changed(3));
  CHECK(rig.range.after == 2);
  CHECK(rig.range.to == 3);
}
