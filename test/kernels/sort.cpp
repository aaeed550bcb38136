#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/embedding.hpp"
#include "model/host/radix_sort.hpp"
#include "model/shapes.hpp"
#include "test/kernels/machine.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/sort.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

/// Keys up to `none`. Some keys are `none`, which sorts after all others.
template <typename Key>
struct Keys {
  explicit Keys(std::mt19937_64& random) {
    const std::uint64_t different = 1 + random() % (random() % 2 == 0 ? 3 : 5000);
    const std::uint64_t apart = 1 + (sizeof(Key) == 8 ? random() % 1'000'000'000'000 : 7);
    none = static_cast<Key>(different * apart);
    const std::uint64_t none_in = random() % 4;
    keys.resize(random() % 4 == 0 ? random() % 3 : random() % 3000);
    for (Key& key : keys) {
      const bool is_none = none_in != 0 && random() % (1 + 8 * (none_in - 1)) == 0;
      key = is_none ? none : static_cast<Key>(random() % different * apart);
      positions.push_back(static_cast<std::uint32_t>(positions.size()));
    }
    positions.shrink_to_fit();
  }
  [[nodiscard]] unsigned bits() const { return static_cast<unsigned>(std::bit_width(none)); }

  std::vector<Key> keys;
  std::vector<std::uint32_t> positions;
  Key none = 0;
};

template <typename Key>
auto sorted_by(const Keys<Key>& of, std::size_t scratch_bytes, auto&& sort_pairs) {
  std::vector<std::byte> scratch(scratch_bytes);
  std::vector<Key> keys(of.keys.size());
  std::vector<std::uint32_t> positions(of.keys.size());
  sort_pairs(SortPairsArguments<Key>{.sorted_keys = writes(keys),
                                     .sorted_values = writes(positions),
                                     .scratch = writes(scratch),
                                     .keys = reads(of.keys),
                                     .values = reads(of.positions),
                                     .bits = of.bits()});
  return std::pair{keys, positions};
}

/// Finds the runs of sorted keys. The outputs have exactly the size that the runs need.
template <typename Key>
auto runs_by(const std::vector<Key>& sorted, Key none, std::size_t scratch_bytes,
             auto&& find_runs) {
  std::vector<Key> different{sorted};
  different.erase(std::unique(different.begin(), different.end()), different.end());
  const std::size_t runs =
      different.size() - (different.empty() || different.back() != none ? 0 : 1);
  std::vector<std::byte> scratch(scratch_bytes);
  std::vector<Key> unique(runs);
  std::vector<std::uint32_t> starts(runs + 1), count(1);
  find_runs(FindRunsArguments<Key>{.unique = writes(unique),
                                   .starts = writes(starts),
                                   .count = writes(count),
                                   .scratch = writes(scratch),
                                   .sorted = reads(sorted),
                                   .none = none});
  return std::tuple{unique, starts, count};
}

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes sorted rows and their runs agree with sequential code", "",
                   std::uint32_t, std::uint64_t) {
  using Key = TestType;
  std::mt19937_64 random{seed()};
  kernels::draw_schedules(seed());
  for (int round = 0; round < 60; ++round) {
    const Keys<Key> keys{random};
    const std::size_t here = host::sort_scratch<Key>(keys.keys.size());
    const std::size_t there = on_host::sort_scratch<Key>(keys.keys.size(), keys.bits());
    CAPTURE(round, keys.keys.size(), keys.none);
    const auto sorted = sorted_by(keys, here, [](const auto& all) { host::sort_pairs(all); });
    REQUIRE(sorted_by(keys, there, [](const auto& all) { on_host::sort_pairs({}, all); }) ==
            sorted);
    REQUIRE(runs_by(sorted.first, keys.none, there,
                    [](const auto& all) { on_host::find_runs({}, all); }) ==
            runs_by(sorted.first, keys.none, here, [](const auto& all) { host::find_runs(all); }));
  }
}

}  // namespace millrace::test::kernels
