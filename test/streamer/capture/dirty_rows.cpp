#include "capture/dirty_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "capture/host/kernels.hpp"
#include "capture/take_word.hpp"
#include "capture/warp_search.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::capture;
using namespace millrace::test;

namespace {

/// The bitmap, and a set with the bits that it should have.
class Scene {
 public:
  Scene(std::size_t rows, IndexType type, std::uint32_t shift)
      : rows_(rows), type_(type), shift_(shift), dirty_(bench_.context, rows, type, shift) {}

  void mark(const std::vector<std::uint64_t>& rows) {
    dirty_.mark_dirty(rows, pinned_, bench_.main);
    for (const std::uint64_t row : rows) expected_.insert(row >> shift_);
  }
  void mark(std::uint64_t first, std::uint64_t end) {
    dirty_.mark_dirty(first, end, bench_.main);
    for (std::uint64_t row = first; row < end; ++row) expected_.insert(row >> shift_);
  }
  /// Collects rows from the bitmap and compares them with the expected rows.
  void collect(std::size_t most) {
    const DirtyRows::Collected collected = dirty_.collect(most, bench_.main);
    std::vector<std::uint64_t> expected;
    auto at = expected_.lower_bound(position_);
    const std::size_t bits = most >> shift_;
    for (std::size_t taken = 0; taken < bits && at != expected_.end(); ++taken) {
      for (std::uint64_t row = *at << shift_;
           row < std::min<std::uint64_t>((*at + 1) << shift_, rows_); ++row) {
        expected.push_back(row);
      }
      at = expected_.erase(at);
    }
    position_ = at == expected_.end() ? 0 : *at;
    const std::uint32_t count =
        bench_.memory.download(static_cast<const std::uint32_t*>(collected.count.data()), 1)[0];
    std::vector<std::uint64_t> found;
    with_key(type_, [&]<typename Key>(Key) {
      const auto keys =
          bench_.memory.download(static_cast<const Key*>(collected.rows.data()), count);
      found.assign(keys.begin(), keys.end());
    });
    CHECK(found == expected);
    CHECK(left() == expected_.size());
  }
  [[nodiscard]] std::uint64_t left() {
    const DirtyCounts counts =
        bench_.memory.download(static_cast<const DirtyCounts*>(dirty_.counts().data()), 1)[0];
    return counts.rows;
  }

 private:
  ModelBench bench_;
  CachingAllocator pinned_{bench_.ordered, bench_.pinned, Policy::pinned()};
  const std::size_t rows_;
  const IndexType type_;
  const std::uint32_t shift_;
  DirtyRows dirty_;
  std::set<std::uint64_t> expected_;
  std::uint64_t position_ = 0;
};

}  // namespace

TEST_CASE("dirty rows are taken once, in ascending order, starting after the last call") {
  const auto type = GENERATE(IndexType::int32, IndexType::int64);
  const std::uint32_t shift = GENERATE(0U, 1U, 3U);
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 4; ++round) {
    const std::size_t rows = 1 + random() % 3000;
    Scene scene{rows, type, shift};
    for (int i = 0; i < 12; ++i) {
      std::vector<std::uint64_t> marked(random() % 60);
      for (auto& row : marked) row = random() % rows;
      scene.mark(marked);
      const std::uint64_t first = random() % rows;
      if (random() % 3 == 0) scene.mark(first, first + random() % (rows - first + 1));
      scene.collect(8 + random() % 400);
    }
    for (int i = 0; scene.left() != 0 && i < 1000; ++i) scene.collect(500);
    CHECK(scene.left() == 0);
  }
}

TEST_CASE("taking dirty rows by words gives the same rows as taking them by bits") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 300; ++round) {
    const BitShape shape{1 + random() % 2000, static_cast<std::uint32_t>(random() % 4)};
    std::vector<std::uint32_t> bits(shape.words());
    for (std::uint64_t bit = 0; bit < shape.bits(); ++bit) {
      if (random() % 3 != 0) bits[bit / 32] |= 1U << (bit % 32);
    }
    const std::size_t most = random() % (shape.bits() + 2);
    std::vector<std::uint32_t> expected_rows(most << shape.shift), left = bits, count(1);
    std::vector<DirtyCounts> counts(1);
    host::collect_rows(CollectRowsArguments<std::uint32_t>{
        .rows = model::writes(expected_rows),
        .count = model::writes(count),
        .dirty = {model::updates(left), model::updates(counts), shape}});
    expected_rows.resize(count[0]);

    constexpr std::uint32_t kUntouched = 0xFFFFFFFF;
    std::vector<std::uint32_t> rows((most + 40) << shape.shift, kUntouched);
    std::uint64_t before = 0, first_left = 0;
    bool some_left = false;
    for (std::uint64_t word = 0; word < shape.words(); ++word) {
      const std::uint32_t there = bits[word];
      bits[word] &= ~take_word(rows.data(), there, word, before, most, shape);
      if (bits[word] != 0 && before <= most) {
        CHECK_FALSE(std::exchange(some_left, true));
        first_left = word * 32 + lowest_bit(bits[word]);
      }
      before += static_cast<std::uint64_t>(std::popcount(there));
    }
    CHECK(bits == left);
    CHECK(first_left == counts[0].position);
    CHECK(std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(count[0]), rows.end(),
                      [](std::uint32_t row) { return row == kUntouched; }));
    rows.resize(count[0]);
    CHECK(rows == expected_rows);
  }
}

TEST_CASE("the search of 32 lanes agrees with std::lower_bound") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint32_t> list(random() % (round % 10 == 0 ? 5000 : 80));
    for (auto& row : list) row = static_cast<std::uint32_t>(random() % 6000);
    std::sort(list.begin(), list.end());
    const std::uint32_t row = static_cast<std::uint32_t>(random() % 6001);
    WarpSearch search{static_cast<std::uint32_t>(list.size())};
    int rounds = 0;
    for (; !search.done(); ++rounds) {
      unsigned less = 0;
      for (unsigned lane = 0; lane < WarpSearch::kLanes; ++lane) {
        if (search.looks(lane) && list.at(search.element(lane)) < row) ++less;
      }
      search.narrow(less);
    }
    CHECK(search.found() == std::lower_bound(list.begin(), list.end(), row) - list.begin());
    CHECK(rounds <= 3);
  }
}

TEST_CASE("rows with 64-bit numbers are gathered with their ids and values") {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 33;
  const std::vector<SourceTable> tables{
      {.first_row = 0, .rows = static_cast<std::int64_t>(kFirst), .width = 1},
      {.first_row = static_cast<std::int64_t>(kFirst), .rows = 10, .width = 2}};
  const std::vector<std::uint64_t> rows{1, 5, kFirst, kFirst + 9};

  std::vector<float> home(40);
  for (std::size_t i = 0; i < home.size(); ++i) home[i] = static_cast<float>(i);
  std::vector<std::byte> slot(400);
  std::vector<std::uint32_t> bits(1), count{4};
  std::vector<DirtyCounts> counts(1);
  host::gather_rows(GatherRowsArguments<float, std::uint64_t>{
      .slot = model::writes(slot),
      .dirty = {model::updates(bits), model::updates(counts), {.rows = 32}},
      .from = {.home = {.weights = model::reads(home)}, .tables = model::reads(tables)},
      .rows = model::reads(rows),
      .count = model::reads(count),
      .shape = {.capacity = slot.size(), .weights = 1}});
  CaptureHeader header;
  std::memcpy(&header, slot.data(), sizeof(header));
  CHECK(header.rows == 4);
  const auto* const ids = reinterpret_cast<const std::uint64_t*>(slot.data() + ids_begin(2));
  CHECK(std::vector<std::uint64_t>(ids, ids + 4) == rows);
  const auto* const values =
      reinterpret_cast<const float*>(slot.data() + numbers_begin(2, 4, sizeof(std::uint64_t)));
  CHECK(std::vector<float>(values, values + 8) == std::vector<float>{1, 5, 0, 0, 0, 1, 18, 19});
}
