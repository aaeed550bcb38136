#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"

namespace millrace::model::cuda {
namespace {

template <typename Key>
struct BeginsRun {
  const Key* sorted;
  Key none;
  __device__ bool operator()(std::uint32_t i) const {
    return sorted[i] != none && (i == 0 || sorted[i] != sorted[i - 1]);
  }
};

/** Scratch memory for a call of CUB. Without memory, the call returns the bytes that it needs. */
struct Scratch {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

template <typename Key>
void sort(Scratch& scratch, const SortPairsArguments<Key>& pairs, cudaStream_t stream) {
  check_cuda(cub::DeviceRadixSort::SortPairs(
                 scratch.memory, scratch.bytes, pairs.keys.data(), pairs.sorted_keys.data(),
                 pairs.values.data(), pairs.sorted_values.data(),
                 static_cast<int>(pairs.keys.size()), 0, static_cast<int>(pairs.bits), stream),
             "cub::DeviceRadixSort::SortPairs");
}

template <typename Key>
void select_starts(Scratch& scratch, const FindRunsArguments<Key>& runs, cudaStream_t stream) {
  const BeginsRun<Key> begins{runs.sorted.data(), runs.none};
  check_cuda(cub::DeviceSelect::If(scratch.memory, scratch.bytes,
                                   thrust::counting_iterator<std::uint32_t>{0}, runs.starts.data(),
                                   runs.count.data(), static_cast<int>(runs.sorted.size()), begins,
                                   stream),
             "cub::DeviceSelect::If");
}

// Writes the row of each run, and the end of the last run, which is before the first `none`.
template <typename Key>
__global__ void complete_runs(FindRunsArguments<Key> arguments) {
  const auto& sorted = arguments.sorted;
  const std::size_t size = sorted.size();
  const Key none = arguments.none;
  const std::uint32_t runs = arguments.count[0];
  for (std::size_t i = this_thread(); i <= size; i += thread_count()) {
    const bool is_end = (i == size || sorted[i] == none) && (i == 0 || sorted[i - 1] != none);
    if (is_end) arguments.starts[runs] = static_cast<std::uint32_t>(i);
    if (i < runs) arguments.unique[i] = sorted[arguments.starts[i]];
  }
}

}  // namespace

template <typename Key>
std::size_t sort_scratch(std::size_t count, unsigned bits) {
  SortPairsArguments<Key> pairs;
  FindRunsArguments<Key> runs;
  pairs.keys.count = runs.sorted.count = count;
  pairs.bits = bits;
  Scratch sorting, selecting;
  sort(sorting, pairs, nullptr);
  select_starts(selecting, runs, nullptr);
  return std::max(sorting.bytes, selecting.bytes);
}

template <typename Key>
void sort_pairs(Queue queue, const SortPairsArguments<Key>& arguments) {
  Scratch scratch{arguments.scratch.data(), arguments.scratch.size()};
  sort(scratch, arguments, native(queue));
}

template <typename Key>
void find_runs(Queue queue, const FindRunsArguments<Key>& arguments) {
  Scratch scratch{arguments.scratch.data(), arguments.scratch.size()};
  select_starts(scratch, arguments, native(queue));
  launch({"find_runs", blocks_for(arguments.sorted.size() + 1), kThreads}, queue,
         complete_runs<Key>, arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key)                                      \
  template std::size_t sort_scratch<Key>(std::size_t, unsigned);   \
  template void sort_pairs(Queue, const SortPairsArguments<Key>&); \
  template void find_runs(Queue, const FindRunsArguments<Key>&);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::model::cuda
