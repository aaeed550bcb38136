#include <cstring>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "millrace/device/error.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "test/kernels/machine.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "data/cuda/copy_segments.cu"
#include "data/cuda/prefix_sum.cu"
#undef cuda

using namespace millrace;
using namespace millrace::test;

namespace {

/// Places segments one after the other, with gaps, in a drawn order.
std::vector<std::size_t> lay_out(std::mt19937_64& random, const std::vector<std::size_t>& words,
                                 std::size_t& total) {
  std::vector<std::size_t> order(words.size()), places(words.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    total += random() % 5;
    places[i] = total;
    total += words[i];
  }
  return places;
}

template <typename Index>
void compare_sums(std::mt19937_64& random) {
  const std::size_t count = random() % 4 == 0 ? random() % 2 : random() % 5000;
  std::vector<Index> lengths(count), offsets(count + 1, -1), expected(count + 1);
  for (Index& length : lengths) length = static_cast<Index>(random() % 9);
  std::inclusive_scan(lengths.begin(), lengths.end(), expected.begin() + 1);
  std::vector<std::byte> scratch(on_host::prefix_sum_scratch(count));
  on_host::prefix_sum({lengths.data(), offsets.data(), count,
                       sizeof(Index) == 4 ? IndexType::int32 : IndexType::int64,
                       scratch.data()})(nullptr);
  REQUIRE(offsets == expected);
}

}  // namespace

TEST_CASE("on 32 lanes segments are copied completely and no other memory changes") {
  std::mt19937_64 random{seed()};
  kernels::draw_schedules(seed());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> words(round % 5 == 0 ? 150 + random() % 200 : random() % 20);
    for (std::size_t& count : words) {
      count = random() % 10 == 0 ? random() % 9000 : random() % 30;
    }
    std::size_t from_words = 0, to_words = 0;
    const std::vector<std::size_t> from = lay_out(random, words, from_words);
    const std::vector<std::size_t> to = lay_out(random, words, to_words);
    std::vector<std::uint32_t> source(from_words), target(to_words, 0xABABABAB);
    for (std::uint32_t& word : source) word = static_cast<std::uint32_t>(random());
    std::vector<std::uint32_t> expected = target;
    std::vector<on_host::DeviceSegment> segments;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from[i]), words[i],
                  expected.begin() + static_cast<std::ptrdiff_t>(to[i]));
      segments.push_back({reinterpret_cast<const std::byte*>(source.data() + from[i]),
                          reinterpret_cast<std::byte*>(target.data() + to[i]), 4 * words[i]});
    }
    on_host::copy_segments(segments)(nullptr);
    CAPTURE(round, segments.size());
    REQUIRE(target == expected);
  }
}

TEST_CASE("offsets are the prefix sum of the lengths, with the requested scratch memory") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 50; ++round) {
    compare_sums<std::int32_t>(random);
    compare_sums<std::int64_t>(random);
  }
}
