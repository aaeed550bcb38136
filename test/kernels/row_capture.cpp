#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "capture/host/kernels.hpp"
#include "millrace/device/error.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "model/row_places.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// Compares the CUDA kernels of the capture with those that a virtual device runs: both must give
// the same bytes. In a build with CUDA the library has GPU versions of these kernels, so the host
// versions need another namespace.
#define cuda on_host
#include <cuda_runtime.h>

#include "capture/cuda/dirty_rows.cu"
#include "capture/cuda/drain_slot.cu"
#include "capture/cuda/gather_rows.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace capture;
using model::reads;
using model::updates;
using model::writes;

namespace {

std::vector<std::uint32_t> draw_bits(std::mt19937_64& random, const BitShape& shape) {
  std::vector<std::uint32_t> bits(shape.words());
  const std::uint64_t one_in = 1 + random() % 40;
  for (std::uint64_t bit = 0; bit < shape.bits(); ++bit) {
    if (random() % one_in == 0) bits[bit / 32] |= 1U << (bit % 32);
  }
  return bits;
}

std::uint64_t count_bits(const std::vector<std::uint32_t>& bits) {
  std::uint64_t count = 0;
  for (const std::uint32_t word : bits) count += static_cast<std::uint64_t>(std::popcount(word));
  return count;
}

/// A bitmap for one of the two kernels.
struct Bitmap {
  std::vector<std::uint32_t> bits;
  std::vector<DirtyCounts> counts;
  [[nodiscard]] DirtyView view(const BitShape& shape) {
    return {updates(bits), updates(counts), shape};
  }
  bool operator==(const Bitmap& other) const {
    return bits == other.bits && counts[0].rows == other.counts[0].rows &&
           counts[0].position == other.counts[0].position;
  }
};

template <typename Key>
std::vector<Key> draw_list(std::mt19937_64& random, std::uint64_t rows) {
  std::vector<Key> list;
  const std::uint64_t one_in = 1 + random() % 9;
  for (std::uint64_t row = 0; row < rows; ++row) {
    if (random() % one_in == 0) list.push_back(static_cast<Key>(row));
  }
  return list;
}

/// Tables with the state of an optimizer, in their own memory and in the memory of a cache.
class Tables {
 public:
  Tables(std::mt19937_64& random, std::size_t count) {
    const unsigned optimizer = random() % 4;  // sgd, adagrad, row-wise, adam
    std::int64_t weights = 0, first_moment = 0, second_moment = 0;
    std::int32_t widest = 1;
    for (std::size_t t = 0; t < count; ++t) {
      const auto width = static_cast<std::int32_t>(1 + random() % (t % 5 == 0 ? 140 : 20));
      const SourceTable table{.first_row = rows_,
                              .rows = static_cast<std::int64_t>(random() % (count > 50 ? 9 : 90)),
                              .weights = weights,
                              .first_moment = first_moment,
                              .second_moment = second_moment,
                              .width = width,
                              .first_moment_width = optimizer == 0   ? 0
                                                    : optimizer == 2 ? 1
                                                                     : width,
                              .second_moment_width = optimizer == 3 ? width : 0,
                              .skipped = random() % 6 == 0 ? 1 : 0};
      rows_ += table.rows;
      weights += table.rows * table.width;
      first_moment += table.rows * table.first_moment_width;
      second_moment += table.rows * table.second_moment_width;
      widest = std::max(widest, width);
      tables.push_back(table);
    }
    const std::size_t cached = random() % 2 == 0 ? 0 : 1 + random() % 50;
    shape.slot_width = cached == 0 ? 0 : static_cast<std::size_t>(widest);
    shape.moment_of_row = optimizer == 2 ? 1 : 0;
    shape.weights = random() % 4 != 0 ? 1 : 0;
    shape.state = random() % 2 == 0 ? 1 : 0;
    fill(this->weights, weights);
    fill(first, first_moment);
    fill(second, second_moment);
    const auto slots = static_cast<std::int64_t>(cached * shape.slot_width);
    fill(cached_weights, slots);
    fill(cached_first, slots);
    fill(cached_second, slots);
    slots_ = static_cast<std::int32_t>(cached);
  }
  [[nodiscard]] std::uint64_t rows() const { return static_cast<std::uint64_t>(rows_); }
  [[nodiscard]] std::vector<std::int32_t> draw_slots(std::mt19937_64& random,
                                                     std::size_t count) const {
    std::vector<std::int32_t> slots(slots_ == 0 ? 0 : count);
    for (std::int32_t& slot : slots) {
      slot = random() % 2 == 0
                 ? model::kNoSlot
                 : static_cast<std::int32_t>(random() % static_cast<unsigned>(slots_));
    }
    return slots;
  }

  [[nodiscard]] RowSources<float> sources(const std::vector<std::int32_t>& slots) const {
    return {.home = {reads(weights), reads(first), reads(second)},
            .cached = {reads(cached_weights), reads(cached_first), reads(cached_second)},
            .slots = reads(slots),
            .tables = reads(tables)};
  }

  std::vector<SourceTable> tables;
  GatherShape shape;
  std::vector<float> weights, first, second, cached_weights, cached_first, cached_second;

 private:
  void fill(std::vector<float>& numbers, std::int64_t size) {
    numbers.resize(static_cast<std::size_t>(size));
    for (float& number : numbers) number = next_++;
  }
  std::int64_t rows_ = 0;
  std::int32_t slots_ = 0;
  float next_ = 1;
};

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes marked and collected rows agree with sequential code", "",
                   std::uint32_t, std::uint64_t) {
  using Key = TestType;
  std::mt19937_64 random{seed()};
  kernels::draw_schedules(seed());
  for (int round = 0; round < 30; ++round) {
    const BitShape shape{1 + random() % (round % 10 == 0 ? 700'000 : 20'000),
                         static_cast<std::uint32_t>(random() % 3)};
    CAPTURE(round, shape.rows, shape.shift);
    Bitmap here{draw_bits(random, shape), std::vector<DirtyCounts>(1)};
    here.counts[0].rows = count_bits(here.bits);
    Bitmap there = here;
    for (int i = 0; i < 4; ++i) {
      const std::vector<Key> list =
          draw_list<Key>(random, std::min<std::uint64_t>(shape.rows, 3000));
      const std::vector<std::uint32_t> size{static_cast<std::uint32_t>(list.size())};
      using Mark = MarkRowsArguments<Key>;
      host::mark_rows(Mark{here.view(shape), reads(list), reads(size)});
      on_host::mark_rows({}, Mark{there.view(shape), reads(list), reads(size)});
      const std::uint64_t first = random() % shape.rows;
      const std::uint64_t end = first + random() % (shape.rows - first + 1);
      if (random() % 3 == 0) {
        host::mark_range({here.view(shape), first, end});
        on_host::mark_range({}, {there.view(shape), first, end});
      }
      REQUIRE(there == here);

      std::vector<Key> rows(1 + random() % 5000), expected(rows.size());
      std::vector<std::uint32_t> count(1), expected_count(1), scratch(collect_scratch(shape));
      host::collect_rows(CollectRowsArguments<Key>{
          .rows = writes(expected), .count = writes(expected_count), .dirty = here.view(shape)});
      on_host::collect_rows({}, CollectRowsArguments<Key>{.rows = writes(rows),
                                                          .count = writes(count),
                                                          .scratch = writes(scratch),
                                                          .dirty = there.view(shape)});
      REQUIRE(count == expected_count);
      REQUIRE(std::equal(rows.begin(), rows.begin() + count[0], expected.begin()));
      REQUIRE(there == here);
    }
  }
}

TEMPLATE_TEST_CASE("on 32 lanes gathered rows agree with sequential code", "", std::uint32_t,
                   std::uint64_t) {
  using Key = TestType;
  std::mt19937_64 random{seed()};
  kernels::draw_schedules(seed());
  for (int round = 0; round < 60; ++round) {
    const std::size_t count = round % 10 == 0 ? 300 : 1 + random() % 40;
    Tables tables{random, count};
    const BitShape bit_shape{std::max<std::uint64_t>(tables.rows(), 1), 0};
    const std::vector<Key> list = draw_list<Key>(random, tables.rows());
    const std::vector<std::uint32_t> size{static_cast<std::uint32_t>(list.size())};
    const std::vector<std::int32_t> slots = tables.draw_slots(random, list.size());
    CAPTURE(round, count, list.size());
    tables.shape.capacity = numbers_begin(count, 0, sizeof(Key)) + 64 +
                            random() % (random() % 3 == 0 ? 1'000 : 300'000);
    const auto gathered = [&](auto&& gather) {
      std::vector<std::byte> slot(tables.shape.capacity, std::byte{0xAB});
      Bitmap dirty{std::vector<std::uint32_t>(bit_shape.words()), std::vector<DirtyCounts>(1)};
      gather(GatherRowsArguments<float, Key>{.slot = writes(slot),
                                             .dirty = dirty.view(bit_shape),
                                             .from = tables.sources(slots),
                                             .rows = reads(list),
                                             .count = reads(size),
                                             .shape = tables.shape});
      return std::pair{slot, dirty};
    };
    const auto here = gathered([](const auto& arguments) { host::gather_rows(arguments); });
    const auto there = gathered([](const auto& arguments) { on_host::gather_rows({}, arguments); });
    REQUIRE(there.second == here.second);
    REQUIRE(there.first == here.first);
  }
}

TEST_CASE("a concurrent gather of fewer tables leaves a launch its shared memory") {
  using Key = std::uint32_t;
  std::mt19937_64 random{seed()};
  const auto gather = [&](std::size_t count) {
    Tables tables{random, count};
    const BitShape bit_shape{std::max<std::uint64_t>(tables.rows(), 1), 0};
    const std::vector<Key> list = draw_list<Key>(random, std::min<std::size_t>(tables.rows(), 20));
    const std::vector<std::uint32_t> size{static_cast<std::uint32_t>(list.size())};
    const std::vector<std::int32_t> slots = tables.draw_slots(random, list.size());
    tables.shape.capacity = numbers_begin(count, 0, sizeof(Key)) + 100'000;
    std::vector<std::byte> slot(tables.shape.capacity);
    Bitmap dirty{std::vector<std::uint32_t>(bit_shape.words()), std::vector<DirtyCounts>(1)};
    on_host::gather_rows({}, GatherRowsArguments<float, Key>{.slot = writes(slot),
                                                             .dirty = dirty.view(bit_shape),
                                                             .from = tables.sources(slots),
                                                             .rows = reads(list),
                                                             .count = reads(size),
                                                             .shape = tables.shape});
  };
  bool met = false;
  kernels::after_asking() = [&] {
    met = true;
    gather(2500);
  };
  CHECK_NOTHROW(gather(4000));
  CHECK(met);
}

TEST_CASE("a slot is drained up to the size in its header, at most to the end of the slot") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 40; ++round) {
    const std::size_t size = sizeof(CaptureHeader) + 16 * (random() % 9000);
    std::vector<std::byte> from(size);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    CaptureHeader header{.bytes = sizeof(header) + 16 * (random() % 10000)};
    if (round % 8 == 0) header.bytes = random();  // an invalid header
    header.bytes -= header.bytes % 16;
    std::memcpy(from.data(), &header, sizeof(header));
    std::vector<std::byte> here(size, std::byte{0xAB}), there = here;
    host::drain_slot(here, from);
    on_host::drain_slot({}, there, from);
    CHECK(there == here);
  }
}

}  // namespace millrace::test::kernels
