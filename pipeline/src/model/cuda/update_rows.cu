#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/words.cuh"

namespace millrace::model::cuda {
namespace {

constexpr unsigned kLongRun = 128;  // from here on a whole block adds up a run
constexpr unsigned kWarpsOfBlock = kThreads / kWarp;

template <typename Offset>
struct SortedLookups {
  const float* gradient;
  const Lookup* lookups;
  const Offset* offsets;
  const float* factors;  // null: 1
  const std::uint32_t* positions;
  const std::uint32_t* bag_of;
  PooledShape shape;
};

struct RowMemory {
  float *weights, *m, *v;

  __device__ RowMemory at(RowPlace place) const {
    return {weights + place.weights, m == nullptr ? m : m + place.m,
            v == nullptr ? v : v + place.weights};
  }
};

// Where rows are: at home, or at slots if they are cached.
struct Tables {
  RowMemory home, cached;
  SlotState* states;
  const std::int32_t* slots;  // of each run; null: tables are not cached
  RowLayout layout;

  __device__ RowMemory row(std::uint32_t run, const Lookup& table, std::int64_t row) const {
    if (slots == nullptr || slots[run] < 0) return home.at(layout.at_home(table, row));
    return cached.at(layout.at_slot(static_cast<std::size_t>(slots[run])));
  }
  __device__ void changed(std::uint32_t run) const {
    if (slots != nullptr && slots[run] >= 0) states[slots[run]].dirty = 1;
  }
};

/** The share of the warps of one owner: it takes lookups `first`, `first + step`, ... of a run. */
struct Share {
  unsigned first, step;
};

template <int size, typename Offset>
__device__ Word<size> add_up(const SortedLookups<Offset>& sorted, const WarpRows& warp,
                             unsigned word, unsigned words, std::uint32_t begin, std::uint32_t end,
                             Share share) {
  Word<size> sum = zero_word<size>();
#pragma unroll 2
  for (std::uint32_t j = begin + share.first * warp.groups + warp.group; j < end;
       j += share.step * warp.groups) {
    const std::uint32_t position = sorted.positions[j];
    const std::size_t bag = sorted.bag_of[position];
    const Lookup& lookup = sorted.lookups[bag / sorted.shape.batch];
    float factor = sorted.factors == nullptr ? 1.0F : sorted.factors[position];
    if (lookup.mean != 0) {
      factor /= static_cast<float>(sorted.offsets[bag + 1] - sorted.offsets[bag]);
    }
    if (word < words) {
      const float* const row = sorted.gradient + bag % sorted.shape.batch * sorted.shape.stride +
                               sorted.shape.column + lookup.column;
      add_scaled(sum, load<size>(row + word * size), factor);
    }
  }
  __syncwarp();
  return warp.over_groups(sum);
}

/** Adds up a run for one owner, 32 words at a time: a warp. */
struct OwnerWarp {
  static __device__ Share share() { return {0, 1}; }
  static __device__ bool applies() { return true; }
  template <int size>
  static __device__ Word<size> combine(const Word<size>& word) {
    return word;
  }
};

/** The same, a block: every warp has a part of the lookups, and the first adds the parts up. */
struct OwnerBlock {
  static __device__ Share share() { return {threadIdx.x / kWarp, kWarpsOfBlock}; }
  static __device__ bool applies() { return threadIdx.x < kWarp; }
  template <int size>
  static __device__ Word<size> combine(const Word<size>& word) {
    __shared__ Word<size> parts[kWarpsOfBlock][kWarp];
    __syncthreads();  // whoever still reads those of before
    parts[threadIdx.x / kWarp][threadIdx.x % kWarp] = word;
    __syncthreads();
    Word<size> sum = parts[0][threadIdx.x % kWarp];
    for (unsigned w = 1; w < kWarpsOfBlock; ++w) {
      add_scaled(sum, parts[w][threadIdx.x % kWarp], 1.0F);
    }
    return sum;
  }
};

template <int size>
__device__ float squares(const Word<size>& word) {
  return dot(word, word);
}

template <OptimizerKind kind, int size>
__device__ void apply(const RowMemory& row, unsigned at, const Word<size>& gradient,
                      const Rule<float>& rule) {
  Word<size> weight = load<size>(row.weights + at);
  Word<size> m = zero_word<size>(), v = zero_word<size>();
  if constexpr (keeps_m<kind>) m = load<size>(row.m + at);
  if constexpr (keeps_v<kind>) v = load<size>(row.v + at);
#pragma unroll
  for (int d = 0; d < size; ++d) {
    follow<kind>(rule, gradient.value[d], weight.value[d], &m.value[d], &v.value[d]);
  }
  store(row.weights + at, weight);
  if constexpr (keeps_m<kind>) store(row.m + at, m);
  if constexpr (keeps_v<kind>) store(row.v + at, v);
}

template <OptimizerKind kind, int size, typename Owner, typename Offset>
__device__ void update_row(const RowMemory& row, const SortedLookups<Offset>& sorted,
                           const Lookup& lookup, std::uint32_t begin, std::uint32_t end,
                           const Rule<float>& rule) {
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const auto gradient = [&](unsigned word) {
    return Owner::template combine<size>(
        add_up<size>(sorted, warp, word, words, begin, end, Owner::share()));
  };

  if constexpr (kind == OptimizerKind::rowwise_adagrad) {
    Word<size> sum = zero_word<size>();
    float total = 0;
    for (unsigned first = 0; first < words; first += warp.lanes) {
      sum = gradient(first + warp.lane);
      total += squares(sum);
    }
    total = warp.over_lanes(total);
    float m = Owner::applies() ? *row.m : 0;
    const float rate = rowwise_rate(rule, total, static_cast<float>(lookup.width), m);
    for (unsigned first = 0; first < words; first += warp.lanes) {
      const unsigned word = first + warp.lane;
      if (words > warp.lanes) sum = gradient(word);  // again: a row of many words is not kept
      if (!Owner::applies() || warp.group != 0 || word >= words) continue;
      Word<size> weight = load<size>(row.weights + word * size);
      add_scaled(weight, sum, -rate);
      store(row.weights + word * size, weight);
    }
    __syncwarp();
    if (Owner::applies() && threadIdx.x % kWarp == 0) *row.m = m;
  } else {
    for (unsigned first = 0; first < words; first += warp.lanes) {
      const unsigned word = first + warp.lane;
      const Word<size> sum = gradient(word);
      if (!Owner::applies() || warp.group != 0 || word >= words) continue;
      apply<kind>(row, word * size, sum, rule);
    }
  }
}

template <typename Key>
struct Runs {
  const Key* unique;
  const std::uint32_t *starts, *count;
};

template <OptimizerKind kind, typename Owner, typename Key, typename Offset>
__device__ void update_run(const Tables& tables, const SortedLookups<Offset>& sorted,
                           const Runs<Key>& runs, std::uint32_t run, const Rule<float>& rule) {
  const std::uint32_t begin = runs.starts[run], end = runs.starts[run + 1];
  const std::uint32_t bag = sorted.bag_of[sorted.positions[begin]];
  const Lookup lookup = sorted.lookups[bag / sorted.shape.batch];
  const RowMemory row = tables.row(run, lookup, static_cast<std::int64_t>(runs.unique[run]));
  if (lookup.width % 4 == 0) {
    update_row<kind, 4, Owner>(row, sorted, lookup, begin, end, rule);
  } else {
    update_row<kind, 1, Owner>(row, sorted, lookup, begin, end, rule);
  }
  if (Owner::applies() && threadIdx.x % kWarp == 0) tables.changed(run);
}

template <OptimizerKind kind, typename Key, typename Offset>
__global__ void update_short_runs(Tables tables, SortedLookups<Offset> sorted, Runs<Key> runs,
                                  Rule<float> rule) {
  for (std::size_t run = this_warp(); run < *runs.count; run += warp_count()) {
    if (runs.starts[run + 1] - runs.starts[run] >= kLongRun) continue;
    update_run<kind, OwnerWarp>(tables, sorted, runs, static_cast<std::uint32_t>(run), rule);
  }
}

// Blocks take 256 runs at a time: each thread looks at one, and then all do those that are long.
template <OptimizerKind kind, typename Key, typename Offset>
__global__ void update_long_runs(Tables tables, SortedLookups<Offset> sorted, Runs<Key> runs,
                                 Rule<float> rule) {
  const std::uint32_t count = *runs.count;
  for (std::size_t first = blockIdx.x * static_cast<std::size_t>(kThreads); first < count;
       first += gridDim.x * static_cast<std::size_t>(kThreads)) {
    const std::size_t mine = first + threadIdx.x;
    const bool is_long = mine < count && runs.starts[mine + 1] - runs.starts[mine] >= kLongRun;
    if (__syncthreads_or(is_long ? 1 : 0) == 0) continue;
    for (unsigned i = 0; i < kThreads && first + i < count; ++i) {
      const auto run = static_cast<std::uint32_t>(first + i);
      if (runs.starts[run + 1] - runs.starts[run] < kLongRun) continue;  // for all threads alike
      update_run<kind, OwnerBlock>(tables, sorted, runs, run, rule);
    }
  }
}

}  // namespace

template <OptimizerKind kind, typename Key, typename Offset>
void update_rows(Queue queue, std::span<float> weights, std::span<float> m, std::span<float> v,
                 std::span<float> cached, std::span<float> cached_m, std::span<float> cached_v,
                 std::span<SlotState> states, std::span<const std::int32_t> slots,
                 std::span<const float> gradient, std::span<const Lookup> lookups,
                 std::span<const Offset> offsets, std::span<const float> factors,
                 std::span<const std::uint32_t> positions, std::span<const std::uint32_t> bag_of,
                 std::span<const Key> unique, std::span<const std::uint32_t> starts,
                 std::span<const std::uint32_t> count, PooledShape shape, Rule<float> rule,
                 std::size_t slot_width) {
  const Tables tables{{weights.data(), m.data(), v.data()},
                      {cached.data(), cached_m.data(), cached_v.data()},
                      states.data(),
                      slots.empty() ? nullptr : slots.data(),
                      {slot_width, state_of_row(kind) != 0}};
  const SortedLookups<Offset> sorted{
      gradient.data(),  lookups.data(), offsets.data(), factors.data(),
      positions.data(), bag_of.data(),  shape};
  const Runs<Key> runs{unique.data(), starts.data(), count.data()};
  const unsigned blocks = blocks_for(unique.size() * kWarp);
  launch({"update_rows: short runs", blocks, kThreads}, queue, update_short_runs<kind, Key, Offset>,
         tables, sorted, runs, rule);
  if (unique.size() < kLongRun) return;
  launch({"update_rows: long runs", blocks_for(unique.size()), kThreads}, queue,
         update_long_runs<kind, Key, Offset>, tables, sorted, runs, rule);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_TYPES(kind, Key, Offset)                                                  \
  template void update_rows<kind, Key, Offset>(                                                \
      Queue, std::span<float>, std::span<float>, std::span<float>, std::span<float>,           \
      std::span<float>, std::span<float>, std::span<SlotState>, std::span<const std::int32_t>, \
      std::span<const float>, std::span<const Lookup>, std::span<const Offset>,                \
      std::span<const float>, std::span<const std::uint32_t>, std::span<const std::uint32_t>,  \
      std::span<const Key>, std::span<const std::uint32_t>, std::span<const std::uint32_t>,    \
      PooledShape, Rule<float>, std::size_t);
#define MILLRACE_FOR_KIND(kind)                         \
  MILLRACE_FOR_TYPES(kind, std::uint32_t, std::int32_t) \
  MILLRACE_FOR_TYPES(kind, std::uint32_t, std::int64_t) \
  MILLRACE_FOR_TYPES(kind, std::uint64_t, std::int32_t) \
  MILLRACE_FOR_TYPES(kind, std::uint64_t, std::int64_t)
MILLRACE_FOR_KIND(OptimizerKind::sgd)
MILLRACE_FOR_KIND(OptimizerKind::rowwise_adagrad)
MILLRACE_FOR_KIND(OptimizerKind::adagrad)
MILLRACE_FOR_KIND(OptimizerKind::adam)
#undef MILLRACE_FOR_KIND
#undef MILLRACE_FOR_TYPES
// NOLINTEND

}  // namespace millrace::model::cuda
