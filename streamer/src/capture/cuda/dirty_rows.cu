#include "capture/cuda/bits.cuh"
#include "capture/cuda/kernels.hpp"
#include "capture/take_word.hpp"

namespace millrace::capture::cuda {
namespace {

template <typename Key>
__global__ void mark_rows_kernel(MarkRowsArguments<Key> arguments) {
  const auto& [dirty, rows, count] = arguments;
  const std::size_t size = count[0] < rows.size() ? count[0] : rows.size();
  unsigned added = 0;
  for (std::size_t i = this_thread(); i < size; i += thread_count()) {
    if (rows[i] < dirty.shape.rows) {
      added += set_bit(dirty.bits.data(), rows[i] >> dirty.shape.shift);
    }
  }
  add_of_warp(dirty.counts[0].rows, added);
}

/** @param first, last  first and last bit, both included */
__global__ void mark_range_kernel(DirtyView dirty, std::uint64_t first, std::uint64_t last) {
  unsigned added = 0;
  for (std::uint64_t word = first / 32 + this_thread(); word <= last / 32; word += thread_count()) {
    std::uint32_t mask = ~std::uint32_t{0};
    if (word == first / 32) mask &= ~std::uint32_t{0} << (first % 32);
    if (word == last / 32) mask &= ~std::uint32_t{0} >> (31 - last % 32);
    added += __popc(mask & ~atomicOr(dirty.bits.data() + word, mask));
  }
  add_of_warp(dirty.counts[0].rows, added);
}

/** @brief Returns the bits of a word that are not before `position`. */
__device__ std::uint32_t from_position(std::uint32_t bits, std::uint64_t word,
                                       std::uint64_t position) {
  if (word < position / 32) return 0;
  return word == position / 32 ? bits & (~std::uint32_t{0} << (position % 32)) : bits;
}

// Only the last of the three launches clears bits. If a launch is refused, no bit has been taken.
//
// Scratch: for each chunk its number of bits, later the number before it; then the number of bits
// to take; then the position.

template <typename Key>
__global__ void count_chunks(CollectRowsArguments<Key> arguments) {
  const auto& [bits, counts, shape] = arguments.dirty;
  const auto& sums = arguments.scratch;
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t chunks = chunks_of(shape);
  const std::uint64_t words = shape.words(), position = counts[0].position;
  for (std::size_t chunk = this_warp(); chunk < chunks; chunk += warp_count()) {
    unsigned sum = 0;
    for (unsigned i = lane; i < kChunkWords; i += kWarp) {
      const std::uint64_t word = chunk * kChunkWords + i;
      if (word < words) sum += __popc(from_position(bits[word], word, position));
    }
    sum = sum_of_warp(sum);
    if (lane == 0) sums[chunk] = sum;
  }
}

constexpr unsigned kScanThreads = 1024;

/** Returns the maximum number of bits to take. */
template <typename Key>
__device__ std::uint32_t most_bits(const CollectRowsArguments<Key>& arguments) {
  return static_cast<std::uint32_t>(arguments.rows.size() >> arguments.dirty.shape.shift);
}

// One block: computes for each chunk the number of bits before it.
template <typename Key>
__global__ void scan_chunks(CollectRowsArguments<Key> arguments) {
  __shared__ std::uint32_t of_warps[kScanThreads / kWarp];
  const auto& [bits, counts, shape] = arguments.dirty;
  const auto& sums = arguments.scratch;
  const std::size_t chunks = chunks_of(shape);
  const std::uint32_t most = most_bits(arguments);
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  std::uint32_t before = 0;  // the same in every thread
  for (std::size_t begin = 0; begin < chunks; begin += kScanThreads) {
    const std::size_t i = begin + threadIdx.x;
    const std::uint32_t own = i < chunks ? sums[i] : 0;
    std::uint32_t up_to = inclusive_of_warp(own);
    if (lane == kWarp - 1) of_warps[warp] = up_to;
    __syncthreads();
    if (warp == 0) of_warps[lane] = inclusive_of_warp(of_warps[lane]);
    __syncthreads();
    up_to += warp == 0 ? 0 : of_warps[warp - 1];
    const std::uint32_t sum = of_warps[kScanThreads / kWarp - 1];
    if (i < chunks) sums[i] = before + up_to - own;
    if (before <= most) before += sum;  // later chunks give nothing
    __syncthreads();                    // the next round overwrites the sums of warps
  }
  if (threadIdx.x != 0) return;
  const std::uint32_t taken = before < most ? before : most;
  sums[chunks] = taken;
  reinterpret_cast<std::uint64_t*>(sums.data() + chunks + 2 + chunks % 2)[0] = counts[0].position;
  // The last bit may stand for fewer rows: take_rows corrects the count if it takes that bit.
  arguments.count[0] = taken << shape.shift;
  if (before <= most) counts[0].position = 0;
}

template <typename Key>
__global__ void take_rows(CollectRowsArguments<Key> arguments) {
  const auto& [bits, counts, shape] = arguments.dirty;
  const auto& sums = arguments.scratch;
  const std::size_t chunks = chunks_of(shape);
  const std::uint32_t most = most_bits(arguments);
  const unsigned lane = threadIdx.x % kWarp;
  const std::uint64_t words = shape.words();
  const std::uint64_t position =
      reinterpret_cast<const std::uint64_t*>(sums.data() + chunks + 2 + chunks % 2)[0];
  const std::uint32_t all = sums[chunks];
  unsigned cleared = 0;
  for (std::size_t chunk = this_warp(); chunk < chunks; chunk += warp_count()) {
    std::uint32_t before = sums[chunk];
    for (unsigned i = lane; i < kChunkWords && before <= most; i += kWarp) {
      const std::uint64_t word = chunk * kChunkWords + i;
      const std::uint32_t there = word < words ? from_position(bits[word], word, position) : 0;
      const unsigned own = __popc(there);
      const unsigned up_to = inclusive_of_warp(own);
      const std::uint32_t at = before + up_to - own;
      const std::uint32_t taken = take_word(arguments.rows.data(), there, word, at, most, shape);
      const std::uint32_t left = there & ~taken;
      // The first bit that stays.
      if (left != 0 && at <= most) counts[0].position = word * 32 + lowest_bit(left);
      // The last bit of the bitmap may stand for fewer rows than the others.
      if (taken != 0 && at + __popc(taken) == all && word + 1 == words) {
        const std::uint64_t behind = shape.bits() << shape.shift;
        const bool last = (taken >> ((shape.bits() - 1) % 32) & 1) != 0;
        const std::uint32_t missing = static_cast<std::uint32_t>(behind - shape.rows);
        if (last) arguments.count[0] = (all << shape.shift) - missing;
      }
      if (taken != 0) bits[word] &= ~taken;
      cleared += __popc(taken);
      before += __shfl_sync(kAllLanes, up_to, kWarp - 1);
    }
  }
  subtract_of_warp(counts[0].rows, cleared);
}

}  // namespace

template <typename Key>
void mark_rows(Queue queue, const MarkRowsArguments<Key>& arguments) {
  launch({"mark rows", blocks_for(arguments.rows.size()), kThreads}, queue, mark_rows_kernel<Key>,
         arguments);
}

void mark_range(Queue queue, const MarkRangeArguments& arguments) {
  const auto& [dirty, first, end] = arguments;
  if (first == end) return;
  const std::uint64_t first_bit = first >> dirty.shape.shift;
  const std::uint64_t last_bit = (end - 1) >> dirty.shape.shift;
  launch({"mark range", blocks_for(last_bit / 32 - first_bit / 32 + 1), kThreads}, queue,
         mark_range_kernel, dirty, first_bit, last_bit);
}

template <typename Key>
void collect_rows(Queue queue, const CollectRowsArguments<Key>& arguments) {
  const unsigned blocks = blocks_for(chunks_of(arguments.dirty.shape) * kWarp);
  launch({"count chunks of dirty rows", blocks, kThreads}, queue, count_chunks<Key>, arguments);
  launch({"scan chunks of dirty rows", 1, kScanThreads}, queue, scan_chunks<Key>, arguments);
  launch({"take dirty rows", blocks, kThreads}, queue, take_rows<Key>, arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key)                                    \
  template void mark_rows(Queue, const MarkRowsArguments<Key>&); \
  template void collect_rows(Queue, const CollectRowsArguments<Key>&);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::capture::cuda
