#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"

namespace millrace::model::cuda {
namespace {

constexpr unsigned kLongRun = 128;  // from this length on, a whole block adds a run
constexpr unsigned kWarpsOfBlock = kThreads / kWarp;

/** The lookups of a run that a warp takes: `first`, `first + step`, ... */
struct Share {
  unsigned first, step;
};

/** A run of ids of one row. */
struct Run {
  std::uint32_t begin, end;
};

template <int size, typename Arguments>
__device__ Word<size> add_up(const Arguments& arguments, const WarpRows& warp, unsigned word,
                             unsigned words, Run run, Share share) {
  Word<size> sum = zero_word<size>();
#pragma unroll 2
  for (std::uint32_t j = run.begin + share.first * warp.groups + warp.group; j < run.end;
       j += share.step * warp.groups) {
    const std::uint32_t position = arguments.sorted.positions[j];
    const std::size_t bag = arguments.sorted.bag_of[position];
    const Lookup& lookup = arguments.bags.lookup(bag);
    float factor = arguments.factors.empty() ? 1.0F : arguments.factors[position];
    if (lookup.mean != 0) {
      factor /= static_cast<float>(arguments.bags.offsets[bag + 1] - arguments.bags.offsets[bag]);
    }
    if (word < words) {
      const float* const row = arguments.gradient.row(bag % arguments.bags.batch, lookup);
      add_scaled(sum, load<size>(row + word * size), factor);
    }
  }
  __syncwarp();
  return warp.over_groups(sum);
}

/** Adds a run with one warp, 32 words at a time. */
struct OwnerWarp {
  static __device__ Share share() { return {0, 1}; }
  static __device__ bool applies() { return true; }
  template <int size>
  static __device__ Word<size> combine(const Word<size>& word) {
    return word;
  }
};

/**
 * Adds a run with a block: every warp takes a part of the lookups, and the first warp adds the
 * parts.
 */
struct OwnerBlock {
  static __device__ Share share() { return {threadIdx.x / kWarp, kWarpsOfBlock}; }
  static __device__ bool applies() { return threadIdx.x < kWarp; }
  template <int size>
  static __device__ Word<size> combine(const Word<size>& word) {
    __shared__ Word<size> parts[kWarpsOfBlock][kWarp];
    __syncthreads();  // other threads may still read the previous ones
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

template <typename Optimizer, int size>
__device__ void apply(const RowPointers<float>& row, unsigned at, const Word<size>& gradient,
                      const Rule<float>& rule) {
  Word<size> weight = load<size>(row.weights + at);
  Word<size> first = zero_word<size>(), second = zero_word<size>();
  if constexpr (Optimizer::keeps_first) first = load<size>(row.first_moment + at);
  if constexpr (Optimizer::keeps_second) second = load<size>(row.second_moment + at);
#pragma unroll
  for (int d = 0; d < size; ++d) {
    Optimizer::follow(rule, gradient.value[d], weight.value[d], &first.value[d], &second.value[d]);
  }
  store(row.weights + at, weight);
  if constexpr (Optimizer::keeps_first) store(row.first_moment + at, first);
  if constexpr (Optimizer::keeps_second) store(row.second_moment + at, second);
}

template <typename Optimizer, int size, typename Owner, typename Arguments>
__device__ void update_row(const RowPointers<float>& row, const Arguments& arguments,
                           const Lookup& lookup, Run run) {
  const Rule<float>& rule = arguments.rule;
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const auto gradient = [&](unsigned word) {
    return Owner::template combine<size>(
        add_up<size>(arguments, warp, word, words, run, Owner::share()));
  };

  if constexpr (Optimizer::by_row) {
    Word<size> sum = zero_word<size>();
    float total = 0;
    for (unsigned first = 0; first < words; first += warp.lanes) {
      sum = gradient(first + warp.lane);
      total += squares(sum);
    }
    total = warp.over_lanes(total);
    float moment = Owner::applies() ? *row.first_moment : 0;
    const float rate = Optimizer::row_rate(rule, total, static_cast<float>(lookup.width), moment);
    for (unsigned first = 0; first < words; first += warp.lanes) {
      const unsigned word = first + warp.lane;
      // Computed again, because a row of many words is not kept.
      if (words > warp.lanes) sum = gradient(word);
      if (!Owner::applies() || warp.group != 0 || word >= words) continue;
      Word<size> weight = load<size>(row.weights + word * size);
      add_scaled(weight, sum, -rate);
      store(row.weights + word * size, weight);
    }
    __syncwarp();
    if (Owner::applies() && threadIdx.x % kWarp == 0) *row.first_moment = moment;
  } else {
    for (unsigned first = 0; first < words; first += warp.lanes) {
      const unsigned word = first + warp.lane;
      const Word<size> sum = gradient(word);
      if (!Owner::applies() || warp.group != 0 || word >= words) continue;
      apply<Optimizer>(row, word * size, sum, rule);
    }
  }
}

template <typename Optimizer, typename Owner, typename Arguments>
__device__ void update_run(const Arguments& arguments, std::uint32_t number) {
  const auto& sorted = arguments.sorted;
  const Run run{sorted.starts[number], sorted.starts[number + 1]};
  const Lookup lookup = arguments.bags.lookup(sorted.bag_of[sorted.positions[run.begin]]);
  const RowPointers<float> row =
      arguments.tables.row(number, lookup, static_cast<std::int64_t>(sorted.rows[number]));
  if (lookup.width % 4 == 0) {
    update_row<Optimizer, 4, Owner>(row, arguments, lookup, run);
  } else {
    update_row<Optimizer, 1, Owner>(row, arguments, lookup, run);
  }
  if (Owner::applies() && threadIdx.x % kWarp == 0) arguments.tables.mark_changed(number);
}

template <typename Optimizer, typename Key, typename Offset>
__global__ void update_short_runs(UpdateRowsArguments<float, Key, Offset> arguments) {
  const auto& sorted = arguments.sorted;
  for (std::size_t run = this_warp(); run < sorted.count[0]; run += warp_count()) {
    if (sorted.starts[run + 1] - sorted.starts[run] >= kLongRun) continue;
    update_run<Optimizer, OwnerWarp>(arguments, static_cast<std::uint32_t>(run));
  }
}

// Blocks take 256 runs at a time. Each thread checks one run, then all threads add the long ones.
template <typename Optimizer, typename Key, typename Offset>
__global__ void update_long_runs(UpdateRowsArguments<float, Key, Offset> arguments) {
  const auto& starts = arguments.sorted.starts;
  const std::uint32_t count = arguments.sorted.count[0];
  for (std::size_t first = blockIdx.x * static_cast<std::size_t>(kThreads); first < count;
       first += gridDim.x * static_cast<std::size_t>(kThreads)) {
    const std::size_t mine = first + threadIdx.x;
    const bool is_long = mine < count && starts[mine + 1] - starts[mine] >= kLongRun;
    if (__syncthreads_or(is_long ? 1 : 0) == 0) continue;
    for (unsigned i = 0; i < kThreads && first + i < count; ++i) {
      const auto run = static_cast<std::uint32_t>(first + i);
      if (starts[run + 1] - starts[run] < kLongRun) continue;  // the same for all threads
      update_run<Optimizer, OwnerBlock>(arguments, run);
    }
  }
}

template <typename Optimizer, typename Key, typename Offset>
void launch_updates(Queue queue, const UpdateRowsArguments<float, Key, Offset>& arguments) {
  // Upper bound on the number of runs that the host knows.
  const std::size_t most = arguments.sorted.rows.size();
  launch({"update_rows: short runs", blocks_for(most * kWarp), kThreads}, queue,
         update_short_runs<Optimizer, Key, Offset>, arguments);
  if (most < kLongRun) return;
  launch({"update_rows: long runs", blocks_for(most), kThreads}, queue,
         update_long_runs<Optimizer, Key, Offset>, arguments);
}

}  // namespace

template <typename Key, typename Offset>
void update_rows(Queue queue, const UpdateRowsArguments<float, Key, Offset>& arguments) {
  with_optimizer(arguments.rule.kind, [&]<typename Optimizer>(Optimizer) {
    launch_updates<Optimizer>(queue, arguments);
  });
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_TYPES(Key, Offset) \
  template void update_rows(Queue, const UpdateRowsArguments<float, Key, Offset>&);
MILLRACE_FOR_TYPES(std::uint32_t, std::int32_t)
MILLRACE_FOR_TYPES(std::uint32_t, std::int64_t)
MILLRACE_FOR_TYPES(std::uint64_t, std::int32_t)
MILLRACE_FOR_TYPES(std::uint64_t, std::int64_t)
#undef MILLRACE_FOR_TYPES
// NOLINTEND

}  // namespace millrace::model::cuda
