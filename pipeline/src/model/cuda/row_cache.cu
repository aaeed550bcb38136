#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"

namespace millrace::model::cuda {
namespace {

static_assert(kWays == kWarp, "a lane for each slot of a set");

template <typename Id>
__device__ bool in_range(const Lookup& lookup, Id id) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) <
         static_cast<std::uint64_t>(lookup.rows);
}

template <typename Id>
__device__ std::uint64_t row_of(const Lookup& lookup, Id id) {
  return static_cast<std::uint64_t>(lookup.first_row + static_cast<std::int64_t>(id));
}

constexpr unsigned kLanesOfKeys = 8;

template <typename Key, typename Id, typename Offset>
__global__ void cache_keys_kernel(CacheKeysArguments<Key, Id, Offset> to) {
  const unsigned lane = threadIdx.x % kLanesOfKeys;
  const CacheShape& shape = to.shape;
  for (std::size_t bag = this_thread() / kLanesOfKeys; bag < to.bags.count();
       bag += thread_count() / kLanesOfKeys) {
    const Lookup& lookup = to.bags.lookup(bag);
    const std::size_t end = to.bags.end(bag);
    for (std::size_t i = to.bags.begin(bag) + lane; i < end; i += kLanesOfKeys) {
      const Id id = to.ids[i];
      to.keys[i] =
          static_cast<Key>(in_range(lookup, id) ? shape.key_of(row_of(lookup, id)) : shape.keys());
      to.positions[i] = static_cast<std::uint32_t>(i);
    }
  }
}

// Returns the lane whose slot is to be evicted, or kWarp if no slot may be evicted.
__device__ unsigned victim(const SlotState& state, const Turn& turn) {
  const unsigned lane = threadIdx.x % kWarp;
  const bool may_go = state.stamp < turn.held_from;
  unsigned best = may_go ? lane : kWarp;
  std::uint32_t uses = turn.least_used ? state.uses : 0;
  unsigned long long stamp = state.stamp;
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    const unsigned other = __shfl_xor_sync(kAllLanes, best, offset);
    const std::uint32_t other_uses = __shfl_xor_sync(kAllLanes, uses, offset);
    const unsigned long long other_stamp = __shfl_xor_sync(kAllLanes, stamp, offset);
    if (other == kWarp) continue;
    const bool before = other_uses != uses     ? other_uses < uses
                        : other_stamp != stamp ? other_stamp < stamp
                                               : other < best;
    if (best != kWarp && !before) continue;
    best = other;
    uses = other_uses;
    stamp = other_stamp;
  }
  return best;
}

__device__ void add(std::uint64_t& count, unsigned number) {
  if (number == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&count), number);
}

// One warp for each set of which the batch has rows: the warp at the first of these rows. Rows that
// are in the cache are marked as used before other rows take slots.
template <typename Key>
__global__ void claim_slots(BringRowsArguments<float, Key> arguments) {
  const unsigned lane = threadIdx.x % kWarp;
  const CacheSlots& slots = arguments.slots;
  const CacheShape& shape = arguments.shape;
  const Turn& turn = arguments.turn;
  const auto& moves = arguments.moves;
  const auto& keys = arguments.wanted.keys;
  const std::size_t rows = arguments.wanted.count[0];
  for (std::size_t begin = this_warp(); begin < rows; begin += warp_count()) {
    const std::uint64_t set = shape.set_of_key(keys[begin]);
    if (begin > 0 && shape.set_of_key(keys[begin - 1]) == set) continue;
    const std::size_t slot = set * kWays + lane;
    std::uint32_t tag = slots.tags[slot];
    SlotState state = slots.states[slot];

    unsigned hits = 0, loads = 0, write_backs = 0, unplaced = 0;
    std::size_t end = begin;
    for (; end < rows && shape.set_of_key(keys[end]) == set; ++end) {
      const bool here = tag == shape.tag_of_key(keys[end]);
      hits += __ballot_sync(kAllLanes, here) != 0 ? 1 : 0;
      if (!here) continue;
      state.stamp = turn.stamp;
      ++state.uses;
    }
    __syncwarp();
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t comes = shape.tag_of_key(keys[i]);
      const bool there = __ballot_sync(kAllLanes, tag == comes) != 0;
      const unsigned goes = there ? kWarp : victim(state, turn);
      if (goes == kWarp) {
        if (lane == 0) moves[i] = {};
        if (!there) ++unplaced;
        continue;
      }
      const bool changed = lane == goes && tag != kNoTag && state.dirty != 0;
      write_backs += __ballot_sync(kAllLanes, changed) != 0 ? 1 : 0;
      ++loads;
      if (lane != goes) continue;
      moves[i] = {static_cast<std::int64_t>(shape.row_of(set, comes)),
                  changed ? static_cast<std::int64_t>(shape.row_of(set, tag)) : -1,
                  static_cast<std::int64_t>(slot)};
      tag = comes;
      state = {turn.stamp, 1, 0};
    }
    __syncwarp();
    slots.tags[slot] = tag;
    slots.states[slot] = state;
    if (lane != 0) continue;
    add(arguments.counts[0].hits, hits);
    add(arguments.counts[0].loads, loads);
    add(arguments.counts[0].write_backs, write_backs);
    add(arguments.counts[0].unplaced, unplaced);
  }
}

__device__ void copy_floats(float* to, const float* from, std::size_t size) {
  const unsigned lane = threadIdx.x % kWarp;
  if (size % 4 == 0) {
    for (std::size_t i = 4 * lane; i < size; i += 4 * kWarp) store(to + i, load<4>(from + i));
  } else {
    for (std::size_t i = lane; i < size; i += kWarp) to[i] = from[i];
  }
}

template <typename From>
__device__ void copy_row(const RowPointers<float>& to, const RowPointers<From>& from,
                         const Lookup& table, const RowLayout& layout) {
  const auto width = static_cast<std::size_t>(table.width);
  copy_floats(to.weights, from.weights, width);
  if (to.first_moment != nullptr) {
    copy_floats(to.first_moment, from.first_moment, layout.moment_of_row ? 1 : width);
  }
  if (to.second_moment != nullptr) copy_floats(to.second_moment, from.second_moment, width);
}

template <typename Key>
__global__ void move_rows(BringRowsArguments<float, Key> arguments) {
  const RowLayout& layout = arguments.layout;
  const auto& lookups = arguments.lookups;
  const RowPointers<float> home = arguments.home.all(), cached = arguments.cached.all();
  const std::size_t rows = arguments.wanted.count[0];
  for (std::size_t i = this_warp(); i < rows; i += warp_count()) {
    const RowMove move = arguments.moves[i];
    if (move.row < 0) continue;
    const RowPointers<float> slot = cached.at(layout.at_slot(static_cast<std::size_t>(move.slot)));
    if (move.evicted >= 0) {
      const Lookup& table = table_of(lookups.data(), lookups.size(), move.evicted);
      copy_row(home.at(layout.at_home(table, move.evicted)), slot, table, layout);
      __syncwarp();  // all lanes must have saved the old row before any lane overwrites it
    }
    const Lookup& table = table_of(lookups.data(), lookups.size(), move.row);
    copy_row(slot, home.at(layout.at_home(table, move.row)), table, layout);
  }
}

__device__ std::int32_t find(const ArrayView<const std::uint32_t>& tags, std::uint64_t row,
                             const CacheShape& shape) {
  const std::uint64_t first = shape.set_of(row) * kWays;
  const bool here = tags[first + threadIdx.x % kWarp] == shape.tag_of(row);
  const unsigned found = __ballot_sync(kAllLanes, here);
  return found == 0 ? kNoSlot : static_cast<std::int32_t>(first) + __ffs(found) - 1;
}

template <typename Id, typename Offset>
__global__ void locate_ids_kernel(LocateIdsArguments<Id, Offset> to) {
  for (std::size_t bag = this_warp(); bag < to.bags.count(); bag += warp_count()) {
    const Lookup& lookup = to.bags.lookup(bag);
    const std::size_t end = to.bags.end(bag);
#pragma unroll 4
    for (std::size_t i = to.bags.begin(bag); i < end; ++i) {
      const Id id = to.ids[i];
      const std::int32_t slot =
          in_range(lookup, id) ? find(to.tags, row_of(lookup, id), to.shape) : kNoSlot;
      if (threadIdx.x % kWarp == 0) to.slots[i] = slot;
    }
  }
}

template <typename Key>
__global__ void locate_rows_kernel(LocateRowsArguments<Key> to) {
  for (std::size_t i = this_warp(); i < to.count[0]; i += warp_count()) {
    const std::int32_t slot = find(to.tags, to.rows[i], to.shape);
    if (threadIdx.x % kWarp == 0) to.slots[i] = slot;
  }
}

__global__ void empty_slots_kernel(EmptySlotsArguments<float> arguments) {
  const RowLayout& layout = arguments.layout;
  const auto& [tags, states] = arguments.slots;
  const auto& lookups = arguments.lookups;
  for (std::size_t slot = this_warp(); slot < tags.size(); slot += warp_count()) {
    if (tags[slot] != kNoTag && states[slot].dirty != 0) {
      const auto row = static_cast<std::int64_t>(arguments.shape.row_of(slot / kWays, tags[slot]));
      const Lookup& table = table_of(lookups.data(), lookups.size(), row);
      copy_row(arguments.home.all().at(layout.at_home(table, row)),
               arguments.cached.all().at(layout.at_slot(slot)), table, layout);
    }
    __syncwarp();
    if (threadIdx.x % kWarp != 0) continue;
    tags[slot] = kNoTag;
    states[slot] = {};
  }
}

}  // namespace

template <typename Key, typename Id, typename Offset>
void cache_keys(Queue queue, const CacheKeysArguments<Key, Id, Offset>& arguments) {
  launch({"cache_keys", blocks_for(arguments.bags.count() * kLanesOfKeys), kThreads}, queue,
         cache_keys_kernel<Key, Id, Offset>, arguments);
}

template <typename Key>
void bring_rows(Queue queue, const BringRowsArguments<float, Key>& arguments) {
  const unsigned blocks = blocks_for(arguments.wanted.keys.size() * kWarp);
  launch({"bring_rows: slots", blocks, kThreads}, queue, claim_slots<Key>, arguments);
  launch({"bring_rows: rows", blocks, kThreads}, queue, move_rows<Key>, arguments);
}

template <typename Id, typename Offset>
void locate_ids(Queue queue, const LocateIdsArguments<Id, Offset>& arguments) {
  launch({"locate_ids", blocks_for(arguments.bags.count() * kWarp), kThreads}, queue,
         locate_ids_kernel<Id, Offset>, arguments);
}

template <typename Key>
void locate_rows(Queue queue, const LocateRowsArguments<Key>& arguments) {
  launch({"locate_rows", blocks_for(arguments.rows.size() * kWarp), kThreads}, queue,
         locate_rows_kernel<Key>, arguments);
}

void empty_slots(Queue queue, const EmptySlotsArguments<float>& arguments) {
  launch({"empty_slots", blocks_for(arguments.slots.tags.size() * kWarp), kThreads}, queue,
         empty_slots_kernel, arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_TYPES(Key, Id, Offset) \
  template void cache_keys(Queue, const CacheKeysArguments<Key, Id, Offset>&);
#define MILLRACE_FOR_KEY(Key)                                             \
  template void bring_rows(Queue, const BringRowsArguments<float, Key>&); \
  template void locate_rows(Queue, const LocateRowsArguments<Key>&);      \
  MILLRACE_FOR_TYPES(Key, std::int32_t, std::int32_t)                     \
  MILLRACE_FOR_TYPES(Key, std::int32_t, std::int64_t)                     \
  MILLRACE_FOR_TYPES(Key, std::int64_t, std::int32_t)                     \
  MILLRACE_FOR_TYPES(Key, std::int64_t, std::int64_t)
#define MILLRACE_FOR_BAGS(Id, Offset) \
  template void locate_ids(Queue, const LocateIdsArguments<Id, Offset>&);
MILLRACE_FOR_KEY(std::uint32_t)
MILLRACE_FOR_KEY(std::uint64_t)
MILLRACE_FOR_BAGS(std::int32_t, std::int32_t)
MILLRACE_FOR_BAGS(std::int32_t, std::int64_t)
MILLRACE_FOR_BAGS(std::int64_t, std::int32_t)
MILLRACE_FOR_BAGS(std::int64_t, std::int64_t)
#undef MILLRACE_FOR_BAGS
#undef MILLRACE_FOR_KEY
#undef MILLRACE_FOR_TYPES
// NOLINTEND

}  // namespace millrace::model::cuda
