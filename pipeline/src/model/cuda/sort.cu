#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/words.cuh"

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

template <typename Key>
cudaError_t sort(void* scratch, std::size_t& bytes, const Key* keys, Key* keys_out,
                 const std::uint32_t* values, std::uint32_t* values_out, std::size_t count,
                 unsigned bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, keys_out, values, values_out,
                                         static_cast<int>(count), 0, static_cast<int>(bits),
                                         stream);
}

template <typename Key>
cudaError_t select_starts(void* scratch, std::size_t& bytes, std::uint32_t* starts,
                          std::uint32_t* found, std::size_t count, BeginsRun<Key> begins,
                          cudaStream_t stream) {
  return cub::DeviceSelect::If(scratch, bytes, thrust::counting_iterator<std::uint32_t>{0}, starts,
                               found, static_cast<int>(count), begins, stream);
}

// The row of each run, and where the last run ends: before the first `none`.
template <typename Key>
__global__ void complete_runs(Key* unique, std::uint32_t* starts, const std::uint32_t* count,
                              const Key* sorted, std::size_t size, Key none) {
  const std::uint32_t runs = *count;
  for (std::size_t i = this_thread(); i <= size; i += thread_count()) {
    const bool is_end = (i == size || sorted[i] == none) && (i == 0 || sorted[i - 1] != none);
    if (is_end) starts[runs] = static_cast<std::uint32_t>(i);
    if (i < runs) unique[i] = sorted[starts[i]];
  }
}

}  // namespace

template <typename Key>
std::size_t sort_scratch(std::size_t count, unsigned bits) {
  std::size_t sorting = 0, selecting = 0;
  check_cuda(sort<Key>(nullptr, sorting, nullptr, nullptr, nullptr, nullptr, count, bits, nullptr),
             "cub::DeviceRadixSort::SortPairs");
  check_cuda(select_starts<Key>(nullptr, selecting, nullptr, nullptr, count, {}, nullptr),
             "cub::DeviceSelect::If");
  return std::max(sorting, selecting);
}

template <typename Key>
void sort_pairs(Queue queue, std::span<Key> keys_out, std::span<std::uint32_t> values_out,
                std::span<std::byte> scratch, std::span<const Key> keys,
                std::span<const std::uint32_t> values, unsigned bits) {
  std::size_t bytes = scratch.size();
  check_cuda(sort(scratch.data(), bytes, keys.data(), keys_out.data(), values.data(),
                  values_out.data(), keys.size(), bits, native(queue)),
             "cub::DeviceRadixSort::SortPairs");
}

template <typename Key>
void find_runs(Queue queue, std::span<Key> unique, std::span<std::uint32_t> starts,
               std::span<std::uint32_t> count, std::span<std::byte> scratch,
               std::span<const Key> sorted, Key none) {
  std::size_t bytes = scratch.size();
  check_cuda(select_starts<Key>(scratch.data(), bytes, starts.data(), count.data(), sorted.size(),
                                {sorted.data(), none}, native(queue)),
             "cub::DeviceSelect::If");
  launch({"find_runs", blocks_for(sorted.size() + 1), kThreads}, queue, complete_runs<Key>,
         unique.data(), starts.data(), count.data(), sorted.data(), sorted.size(), none);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key)                                                    \
  template std::size_t sort_scratch<Key>(std::size_t, unsigned);                 \
  template void sort_pairs<Key>(Queue, std::span<Key>, std::span<std::uint32_t>, \
                                std::span<std::byte>, std::span<const Key>,      \
                                std::span<const std::uint32_t>, unsigned);       \
  template void find_runs<Key>(Queue, std::span<Key>, std::span<std::uint32_t>,  \
                               std::span<std::uint32_t>, std::span<std::byte>,   \
                               std::span<const Key>, Key);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::model::cuda
