#include "capture/cuda/bits.cuh"
#include "capture/cuda/kernels.hpp"
#include "capture/warp_search.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/words.cuh"
#include "model/row_places.hpp"

// One launch finds where each table's rows go and moves them: every block finds the same places in
// its shared memory, from the tables' first rows in the list, and then takes rows by warps.

namespace millrace::capture::cuda {

using model::cuda::blocks_for;
using model::cuda::kAllLanes;
using model::cuda::kThreads;
using model::cuda::kWarp;
using model::cuda::launch;
using model::cuda::shared_memory;
using model::cuda::this_warp;
using model::cuda::warp_count;

namespace {

constexpr unsigned kRowsOfWarp = 8;  // at a time: their places are found by a lane each

struct Place {
  std::uint32_t first;   // of the list: the table's first row
  std::uint32_t packed;  // of the ids in the slot: likewise
  std::uint32_t rows;    // that fit
  std::uint32_t unused;
  unsigned long long at;  // of the numbers, in floats
};

struct Gather {
  std::byte* slot;
  std::uint32_t* bits;
  DirtyCounts* counts;
  const float *weights, *m, *v;
  const float *cached, *cached_m, *cached_v;
  const std::int32_t* slots;
  const SourceTable* tables;
  std::size_t table_count;
  const std::uint32_t* count;
  GatherShape shape;
  BitShape bit_shape;
};

/** @brief The first of a list that is not before `row`; by each thread for itself. */
template <typename Key>
__device__ std::uint32_t lower_bound(const Key* rows, std::uint32_t size, std::int64_t row) {
  std::uint32_t first = 0;
  while (size > 0) {
    const std::uint32_t half = size / 2;
    const bool less = static_cast<std::int64_t>(rows[first + half]) < row;
    first += less ? half + 1 : 0;
    size = less ? size - half - 1 : half;
  }
  return first;
}

/** @brief The same by all lanes of a warp. */
template <typename Key>
__device__ std::uint32_t lower_bound_by_warp(const Key* rows, std::uint32_t size,
                                             std::int64_t row) {
  const unsigned lane = threadIdx.x % kWarp;
  WarpSearch search{size};
  while (!search.done()) {
    const bool less =
        search.looks(lane) && static_cast<std::int64_t>(rows[search.element(lane)]) < row;
    search.narrow(__popc(__ballot_sync(kAllLanes, less)));
  }
  return search.found();
}

// Every block does so before it moves a byte: with few tables in few rounds of loads.
template <typename Key>
__device__ void find_tables(Place* places, const Gather& gather, const Key* list,
                            std::uint32_t count) {
  const std::size_t tables = gather.table_count, warps = blockDim.x / kWarp;
  if (tables <= 4 * warps) {
    for (std::size_t t = threadIdx.x / kWarp; t < tables; t += warps) {
      const std::uint32_t first = lower_bound_by_warp(list, count, gather.tables[t].first_row);
      if (threadIdx.x % kWarp == 0) places[t].first = first;
    }
  } else {
    for (std::size_t t = threadIdx.x; t < tables; t += blockDim.x) {
      places[t].first = lower_bound(list, count, gather.tables[t].first_row);
    }
  }
  if (threadIdx.x == 0) places[tables].first = count;
}

// Of the tables before each lane's and of its own what they take, by the first warp: 32 at a time.
template <typename Key>
__device__ void place_tables(Place* places, const Gather& gather) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned long long left = budget(gather.shape.capacity, gather.table_count), at = 0;
  std::uint32_t packed = 0;
  for (std::size_t begin = 0; begin < gather.table_count; begin += kWarp) {
    const std::size_t t = begin + lane;
    const bool there = t < gather.table_count;
    const SourceTable table = there ? gather.tables[t] : SourceTable{.skipped = 1};
    const std::uint32_t listed = there ? places[t + 1].first - places[t].first : 0;
    const unsigned long long bytes = bytes_of(listed, table, gather.shape, sizeof(Key));
    const unsigned long long up_to = inclusive_of_warp(bytes);
    const unsigned crossed = __ballot_sync(kAllLanes, up_to > left);
    const unsigned crossing = crossed == 0 ? kWarp : __ffs(static_cast<int>(crossed)) - 1;
    std::uint32_t rows = table.skipped != 0 || lane > crossing ? 0 : listed;
    if (lane == crossing) {
      rows = static_cast<std::uint32_t>(
          rows_that_fit(listed, left - (up_to - bytes), table, gather.shape, sizeof(Key)));
    }
    const std::uint32_t packed_up_to = inclusive_of_warp(rows);
    const unsigned long long floats = floats_of(rows, table, gather.shape);
    const unsigned long long floats_up_to = inclusive_of_warp(floats);
    if (there) {
      places[t].packed = packed + packed_up_to - rows;
      places[t].rows = rows;
      places[t].at = at + floats_up_to - floats;
    }
    packed += __shfl_sync(kAllLanes, packed_up_to, kWarp - 1);
    at += __shfl_sync(kAllLanes, floats_up_to, kWarp - 1);
    left = crossing != kWarp ? 0 : left - __shfl_sync(kAllLanes, up_to, kWarp - 1);
  }
  if (lane == 0) {
    places[gather.table_count].packed = packed;
    places[gather.table_count].rows = 0;
    places[gather.table_count].at = at;
  }
}

__device__ std::size_t table_of(const Place* places, std::size_t count, std::uint32_t i) {
  std::size_t first = 0;  // the last table whose rows begin at or before i
  while (count > 1) {
    const std::size_t half = count / 2;
    if (places[first + half].first <= i) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return first;
}

// What a warp moves of a row: three runs of floats at most.
struct Run {
  const float* from;
  float* to;
  std::uint32_t size;
};

__device__ void copy_run(const Run& run, unsigned source) {
  const auto* const from = reinterpret_cast<const float*>(
      __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(run.from), source));
  auto* const to = reinterpret_cast<float*>(
      __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(run.to), source));
  const std::uint32_t size = __shfl_sync(kAllLanes, run.size, source);
  const unsigned lane = threadIdx.x % kWarp;
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
  const std::uint32_t words = aligned ? size / 4 : 0;
  for (std::uint32_t i = lane; i < words; i += kWarp) {
    reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i];
  }
  for (std::uint32_t i = words * 4 + lane; i < size; i += kWarp) to[i] = from[i];
}

template <typename Key>
__global__ void gather_rows_kernel(Gather gather, const Key* list) {
  auto* const places = shared_memory<Place>();
  const std::size_t tables = gather.table_count;
  const std::uint32_t count = *gather.count;
  find_tables(places, gather, list, count);
  __syncthreads();
  if (threadIdx.x < kWarp) place_tables<Key>(places, gather);
  __syncthreads();

  const std::uint32_t packed = places[tables].packed;
  const std::size_t numbers = numbers_begin(tables, packed, sizeof(Key));
  auto* const header = reinterpret_cast<CaptureHeader*>(gather.slot);
  auto* const ids = reinterpret_cast<Key*>(gather.slot + ids_begin(tables));
  auto* const values = reinterpret_cast<float*>(gather.slot + numbers);
  if (blockIdx.x == 0) {
    auto* const starts = reinterpret_cast<std::uint32_t*>(gather.slot + sizeof(CaptureHeader));
    for (std::size_t t = threadIdx.x; t <= tables; t += blockDim.x) starts[t] = places[t].packed;
  }

  const unsigned lane = threadIdx.x % kWarp;
  unsigned dirty = 0;
  for (std::size_t begin = this_warp() * kRowsOfWarp; begin < count;
       begin += warp_count() * kRowsOfWarp) {
    Run weights{}, m{}, v{};
    const std::size_t i = begin + lane;
    if (lane < kRowsOfWarp && i < count) {
      const std::size_t t = table_of(places, tables, static_cast<std::uint32_t>(i));
      const SourceTable& table = gather.tables[t];
      const Place& place = places[t];
      const auto of_table = static_cast<std::uint32_t>(i) - place.first;
      const Key row = list[i];
      if (table.skipped == 0 && of_table >= place.rows) {
        dirty += set_bit(gather.bits, row >> gather.bit_shape.shift);
      } else if (table.skipped == 0) {
        ids[place.packed + of_table] = row;
        const std::int64_t number = static_cast<std::int64_t>(row) - table.first_row;
        const std::int64_t slot = gather.slots == nullptr ? model::kNoSlot : gather.slots[i];
        const bool at_slot = slot >= 0;
        const auto slot_width = static_cast<std::int64_t>(gather.shape.slot_width);
        const std::size_t width = gather.shape.width_of(table);
        const std::size_t state = gather.shape.state_of(table);
        float* const state_to =
            values + place.at + rounded(place.rows * width, 4) + of_table * state;
        if (width != 0) {
          weights = {at_slot ? gather.cached + slot * slot_width
                             : gather.weights + table.weights + number * table.width,
                     values + place.at + of_table * width, static_cast<std::uint32_t>(width)};
        }
        if (state != 0 && table.m_width != 0) {
          m = {at_slot ? gather.cached_m + slot * (gather.shape.m_of_row != 0 ? 1 : slot_width)
                       : gather.m + table.m + number * table.m_width,
               state_to, static_cast<std::uint32_t>(table.m_width)};
        }
        if (state != 0 && table.v_width != 0) {
          v = {at_slot ? gather.cached_v + slot * slot_width
                       : gather.v + table.v + number * table.v_width,
               state_to + table.m_width, static_cast<std::uint32_t>(table.v_width)};
        }
      }
    }
#pragma unroll 4
    for (unsigned r = 0; r < kRowsOfWarp; ++r) copy_run(weights, r);
    if (gather.shape.state == 0) continue;
#pragma unroll 4
    for (unsigned r = 0; r < kRowsOfWarp; ++r) {
      copy_run(m, r);
      copy_run(v, r);
    }
  }
  add_of_warp(gather.counts->rows, dirty);

  // The last block that ends knows what is dirty behind all of them.
  __threadfence();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned before = atomicInc(&gather.counts->blocks_done, gridDim.x - 1);
  if (before != gridDim.x - 1) return;
  __threadfence();
  CaptureHeader of_all{};
  of_all.rows = packed;
  of_all.tables = static_cast<std::uint32_t>(tables);
  of_all.bytes = numbers + places[tables].at * sizeof(float);
  for (std::size_t t = 0; t < tables; ++t) {
    const std::uint32_t listed = places[t + 1].first - places[t].first;
    (gather.tables[t].skipped != 0 ? of_all.skipped : of_all.overflowed) += listed - places[t].rows;
  }
  of_all.missing = atomicAdd(&gather.counts->rows, 0ULL);
  *header = of_all;
}

// As much as the device has, whoever asks: another gather that asks for less would lower what this
// one launches with.
template <typename... Parameters>
void allow_all_shared_memory(void (*kernel)(Parameters...)) {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "cudaDeviceGetAttribute");
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "cudaFuncSetAttribute");
}

}  // namespace

template <typename Key>
void gather_rows(Queue queue, std::span<std::byte> slot, std::span<std::uint32_t> bits,
                 std::span<DirtyCounts> counts, std::span<const float> weights,
                 std::span<const float> m, std::span<const float> v, std::span<const float> cached,
                 std::span<const float> cached_m, std::span<const float> cached_v,
                 std::span<const std::int32_t> slots, std::span<const SourceTable> tables,
                 std::span<const Key> rows, std::span<const std::uint32_t> count, GatherShape shape,
                 BitShape bit_shape) {
  const Gather gather{slot.data(),   bits.data(),   counts.data(),   weights.data(),  m.data(),
                      v.data(),      cached.data(), cached_m.data(), cached_v.data(), slots.data(),
                      tables.data(), tables.size(), count.data(),    shape,           bit_shape};
  const std::size_t shared = (tables.size() + 1) * sizeof(Place);
  if (shared > std::size_t{48} << 10) allow_all_shared_memory(gather_rows_kernel<Key>);
  const unsigned blocks = blocks_for((rows.size() + kRowsOfWarp - 1) / kRowsOfWarp * kWarp);
  launch({"gather rows", blocks, kThreads, shared}, queue, gather_rows_kernel<Key>, gather,
         rows.data());
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key)                                                            \
  template void gather_rows<Key>(                                                        \
      Queue, std::span<std::byte>, std::span<std::uint32_t>, std::span<DirtyCounts>,     \
      std::span<const float>, std::span<const float>, std::span<const float>,            \
      std::span<const float>, std::span<const float>, std::span<const float>,            \
      std::span<const std::int32_t>, std::span<const SourceTable>, std::span<const Key>, \
      std::span<const std::uint32_t>, GatherShape, BitShape);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::capture::cuda
