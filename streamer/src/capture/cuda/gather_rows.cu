#include "capture/cuda/bits.cuh"
#include "capture/cuda/kernels.hpp"
#include "capture/warp_search.hpp"

// One launch places the rows of each table and copies them. Every block computes the same places in
// its shared memory, from the first row of each table in the list; then its warps copy rows.

namespace millrace::capture::cuda {
namespace {

// Rows that a warp copies at a time: one lane computes the place of each.
constexpr unsigned kRowsOfWarp = 8;

struct Place {
  std::uint32_t first;   // index in the list of the table's first row
  std::uint32_t packed;  // index in the slot of the table's first id
  std::uint32_t rows;    // number of rows that fit
  std::uint32_t unused;
  unsigned long long at;  // offset in the slot of the table's values, in floats
};

/**
 * @brief Returns the index of the first row in a list that is not before `row`. Each thread
 * searches for itself.
 */
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

/** @brief Like lower_bound, by all lanes of a warp together. */
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

// Every block does this before it copies, so few tables are searched in few rounds of loads.
template <typename Key>
__device__ void find_tables(Place* places, const GatherRowsArguments<float, Key>& arguments,
                            std::uint32_t count) {
  const Key* const list = arguments.rows.data();
  const auto& of_source = arguments.from.tables;
  const std::size_t tables = of_source.size(), warps = blockDim.x / kWarp;
  if (tables <= 4 * warps) {
    for (std::size_t t = threadIdx.x / kWarp; t < tables; t += warps) {
      const std::uint32_t first = lower_bound_by_warp(list, count, of_source[t].first_row);
      if (threadIdx.x % kWarp == 0) places[t].first = first;
    }
  } else {
    for (std::size_t t = threadIdx.x; t < tables; t += blockDim.x) {
      places[t].first = lower_bound(list, count, of_source[t].first_row);
    }
  }
  if (threadIdx.x == 0) places[tables].first = count;
}

// Run by the first warp, 32 tables at a time: places each table after the tables before it.
template <typename Key>
__device__ void place_tables(Place* places, const GatherRowsArguments<float, Key>& arguments) {
  const GatherShape& shape = arguments.shape;
  const auto& tables = arguments.from.tables;
  const unsigned lane = threadIdx.x % kWarp;
  unsigned long long left = budget(shape.capacity, tables.size()), at = 0;
  std::uint32_t packed = 0;
  for (std::size_t begin = 0; begin < tables.size(); begin += kWarp) {
    const std::size_t t = begin + lane;
    const bool there = t < tables.size();
    const SourceTable table = there ? tables[t] : SourceTable{.skipped = 1};
    const std::uint32_t listed = there ? places[t + 1].first - places[t].first : 0;
    const unsigned long long bytes = bytes_of(listed, table, shape, sizeof(Key));
    const unsigned long long up_to = inclusive_of_warp(bytes);
    const unsigned crossed = __ballot_sync(kAllLanes, up_to > left);
    const unsigned crossing = crossed == 0 ? kWarp : __ffs(static_cast<int>(crossed)) - 1;
    std::uint32_t rows = table.skipped != 0 || lane > crossing ? 0 : listed;
    if (lane == crossing) {
      rows = static_cast<std::uint32_t>(
          rows_that_fit(listed, left - (up_to - bytes), table, shape, sizeof(Key)));
    }
    const std::uint32_t packed_up_to = inclusive_of_warp(rows);
    const unsigned long long floats = floats_of(rows, table, shape);
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
    places[tables.size()].packed = packed;
    places[tables.size()].rows = 0;
    places[tables.size()].at = at;
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

// A run of floats that a warp copies. A row has at most three.
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
__global__ void gather_rows_kernel(GatherRowsArguments<float, Key> arguments) {
  auto* const places = shared_memory<Place>();
  const RowSources<float>& from = arguments.from;
  const GatherShape& shape = arguments.shape;
  const DirtyView& dirty_rows = arguments.dirty;
  DirtyCounts& counts = dirty_rows.counts[0];
  std::byte* const slot_memory = arguments.slot.data();
  const std::size_t tables = from.tables.size();
  const std::uint32_t count = arguments.count[0];
  find_tables(places, arguments, count);
  __syncthreads();
  if (threadIdx.x < kWarp) place_tables(places, arguments);
  __syncthreads();

  const std::uint32_t packed = places[tables].packed;
  const std::size_t numbers = numbers_begin(tables, packed, sizeof(Key));
  auto* const header = reinterpret_cast<CaptureHeader*>(slot_memory);
  auto* const ids = reinterpret_cast<Key*>(slot_memory + ids_begin(tables));
  auto* const values = reinterpret_cast<float*>(slot_memory + numbers);
  if (blockIdx.x == 0) {
    auto* const starts = reinterpret_cast<std::uint32_t*>(slot_memory + sizeof(CaptureHeader));
    for (std::size_t t = threadIdx.x; t <= tables; t += blockDim.x) starts[t] = places[t].packed;
  }

  const unsigned lane = threadIdx.x % kWarp;
  unsigned dirty = 0;
  for (std::size_t begin = this_warp() * kRowsOfWarp; begin < count;
       begin += warp_count() * kRowsOfWarp) {
    Run weights{}, first{}, second{};
    const std::size_t i = begin + lane;
    if (lane < kRowsOfWarp && i < count) {
      const std::size_t t = table_of(places, tables, static_cast<std::uint32_t>(i));
      const SourceTable& table = from.tables[t];
      const Place& place = places[t];
      const auto of_table = static_cast<std::uint32_t>(i) - place.first;
      const Key row = arguments.rows[i];
      if (table.skipped == 0 && of_table >= place.rows) {
        dirty += set_bit(dirty_rows.bits.data(), row >> dirty_rows.shape.shift);
      } else if (table.skipped == 0) {
        ids[place.packed + of_table] = row;
        const std::int64_t number = static_cast<std::int64_t>(row) - table.first_row;
        const std::int64_t slot = from.slots.empty() ? model::kNoSlot : from.slots[i];
        const bool at_slot = slot >= 0;
        const auto slot_width = static_cast<std::int64_t>(shape.slot_width);
        const std::size_t width = shape.width_of(table);
        const std::size_t state = shape.state_of(table);
        float* const state_to =
            values + place.at + rounded(place.rows * width, 4) + of_table * state;
        if (width != 0) {
          weights = {at_slot ? from.cached.weights.data() + slot * slot_width
                             : from.home.weights.data() + table.weights + number * table.width,
                     values + place.at + of_table * width, static_cast<std::uint32_t>(width)};
        }
        if (state != 0 && table.first_moment_width != 0) {
          first = {at_slot ? from.cached.first_moment.data() +
                                 slot * (shape.moment_of_row != 0 ? 1 : slot_width)
                           : from.home.first_moment.data() + table.first_moment +
                                 number * table.first_moment_width,
                   state_to, static_cast<std::uint32_t>(table.first_moment_width)};
        }
        if (state != 0 && table.second_moment_width != 0) {
          second = {at_slot ? from.cached.second_moment.data() + slot * slot_width
                            : from.home.second_moment.data() + table.second_moment +
                                  number * table.second_moment_width,
                    state_to + table.first_moment_width,
                    static_cast<std::uint32_t>(table.second_moment_width)};
        }
      }
    }
#pragma unroll 4
    for (unsigned r = 0; r < kRowsOfWarp; ++r) copy_run(weights, r);
    if (shape.state == 0) continue;
#pragma unroll 4
    for (unsigned r = 0; r < kRowsOfWarp; ++r) {
      copy_run(first, r);
      copy_run(second, r);
    }
  }
  add_of_warp(counts.rows, dirty);

  // The last block that ends knows the number of dirty rows after all blocks.
  __threadfence();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned before = atomicInc(&counts.blocks_done, gridDim.x - 1);
  if (before != gridDim.x - 1) return;
  __threadfence();
  CaptureHeader of_all{};
  of_all.rows = packed;
  of_all.tables = static_cast<std::uint32_t>(tables);
  of_all.bytes = numbers + places[tables].at * sizeof(float);
  for (std::size_t t = 0; t < tables; ++t) {
    const std::uint32_t listed = places[t + 1].first - places[t].first;
    (from.tables[t].skipped != 0 ? of_all.skipped : of_all.overflowed) += listed - places[t].rows;
  }
  of_all.missing = atomicAdd(&counts.rows, 0ULL);
  *header = of_all;
}

// Always the device's maximum: a concurrent gather with a smaller value would lower the limit
// before this one is launched.
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
void gather_rows(Queue queue, const GatherRowsArguments<float, Key>& arguments) {
  const std::size_t rows = arguments.rows.size();
  const std::size_t shared = (arguments.from.tables.size() + 1) * sizeof(Place);
  if (shared > std::size_t{48} << 10) allow_all_shared_memory(gather_rows_kernel<Key>);
  const unsigned blocks = blocks_for((rows + kRowsOfWarp - 1) / kRowsOfWarp * kWarp);
  launch({"gather rows", blocks, kThreads, shared}, queue, gather_rows_kernel<Key>, arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key) \
  template void gather_rows(Queue, const GatherRowsArguments<float, Key>&);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::capture::cuda
