#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/words.cuh"

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

constexpr unsigned kLanesOfBag = 8;

template <typename Key, typename Id, typename Offset>
__global__ void cache_keys_kernel(Key* keys, std::uint32_t* positions, const Lookup* lookups,
                                  std::size_t features, const Id* ids, const Offset* offsets,
                                  std::size_t batch, CacheShape shape) {
  const unsigned lane = threadIdx.x % kLanesOfBag;
  for (std::size_t bag = this_thread() / kLanesOfBag; bag < features * batch;
       bag += thread_count() / kLanesOfBag) {
    const Lookup& lookup = lookups[bag / batch];
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
    for (std::size_t i = static_cast<std::size_t>(offsets[bag]) + lane; i < end; i += kLanesOfBag) {
      const Id id = ids[i];
      keys[i] =
          static_cast<Key>(in_range(lookup, id) ? shape.key_of(row_of(lookup, id)) : shape.keys());
      positions[i] = static_cast<std::uint32_t>(i);
    }
  }
}

// Of all lanes that may give up their slot: the one that is to. kWarp: none may.
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

struct Slots {
  std::uint32_t* tags;
  SlotState* states;
  CacheCounts* counts;
};

__device__ void add(std::uint64_t& count, unsigned number) {
  if (number == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&count), number);
}

// A warp for each set that the batch has rows of: it stands where the first of them is. Rows that
// are there are held before others take slots.
template <typename Key>
__global__ void claim_slots(Slots slots, RowMove* moves, const Key* unique,
                            const std::uint32_t* count, CacheShape shape, Turn turn) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t rows = *count;
  for (std::size_t begin = this_warp(); begin < rows; begin += warp_count()) {
    const std::uint64_t set = shape.set_of_key(unique[begin]);
    if (begin > 0 && shape.set_of_key(unique[begin - 1]) == set) continue;
    const std::size_t slot = set * kWays + lane;
    std::uint32_t tag = slots.tags[slot];
    SlotState state = slots.states[slot];

    unsigned hits = 0, loads = 0, write_backs = 0, unplaced = 0;
    std::size_t end = begin;
    for (; end < rows && shape.set_of_key(unique[end]) == set; ++end) {
      const bool here = tag == shape.tag_of_key(unique[end]);
      hits += __ballot_sync(kAllLanes, here) != 0 ? 1 : 0;
      if (!here) continue;
      state.stamp = turn.stamp;
      ++state.uses;
    }
    __syncwarp();
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t comes = shape.tag_of_key(unique[i]);
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
    add(slots.counts->hits, hits);
    add(slots.counts->loads, loads);
    add(slots.counts->write_backs, write_backs);
    add(slots.counts->unplaced, unplaced);
  }
}

template <typename T>
struct Rows {
  T *weights, *m, *v;
};

__device__ void copy_floats(float* to, const float* from, std::size_t size) {
  const unsigned lane = threadIdx.x % kWarp;
  if (size % 4 == 0) {
    for (std::size_t i = 4 * lane; i < size; i += 4 * kWarp) store(to + i, load<4>(from + i));
  } else {
    for (std::size_t i = lane; i < size; i += kWarp) to[i] = from[i];
  }
}

template <typename From>
__device__ void copy_row(const Rows<float>& to, RowPlace to_place, const Rows<From>& from,
                         RowPlace from_place, const Lookup& table, bool m_of_row) {
  const auto width = static_cast<std::size_t>(table.width);
  copy_floats(to.weights + to_place.weights, from.weights + from_place.weights, width);
  if (to.m != nullptr) {
    copy_floats(to.m + to_place.m, from.m + from_place.m, m_of_row ? 1 : width);
  }
  if (to.v != nullptr) {
    copy_floats(to.v + to_place.weights, from.v + from_place.weights, width);
  }
}

__global__ void move_rows(Rows<float> slots, Rows<float> home, const Lookup* lookups,
                          std::size_t features, const RowMove* moves, const std::uint32_t* count,
                          RowLayout layout) {
  for (std::size_t i = this_warp(); i < *count; i += warp_count()) {
    const RowMove move = moves[i];
    if (move.row < 0) continue;
    const RowPlace slot = layout.at_slot(static_cast<std::size_t>(move.slot));
    if (move.evicted >= 0) {
      const Lookup& table = table_of(lookups, features, move.evicted);
      copy_row(home, layout.at_home(table, move.evicted), slots, slot, table, layout.m_of_row);
      __syncwarp();  // lanes do not bring what others still take away
    }
    const Lookup& table = table_of(lookups, features, move.row);
    copy_row(slots, slot, home, layout.at_home(table, move.row), table, layout.m_of_row);
  }
}

__device__ std::int32_t find(const std::uint32_t* tags, std::uint64_t row,
                             const CacheShape& shape) {
  const std::uint64_t first = shape.set_of(row) * kWays;
  const bool here = tags[first + threadIdx.x % kWarp] == shape.tag_of(row);
  const unsigned found = __ballot_sync(kAllLanes, here);
  return found == 0 ? kNoSlot : static_cast<std::int32_t>(first) + __ffs(found) - 1;
}

template <typename Id, typename Offset>
__global__ void locate_ids_kernel(std::int32_t* slots, const std::uint32_t* tags,
                                  const Lookup* lookups, std::size_t features, const Id* ids,
                                  const Offset* offsets, std::size_t batch, CacheShape shape) {
  for (std::size_t bag = this_warp(); bag < features * batch; bag += warp_count()) {
    const Lookup& lookup = lookups[bag / batch];
    const auto end = static_cast<std::size_t>(offsets[bag + 1]);
#pragma unroll 4
    for (auto i = static_cast<std::size_t>(offsets[bag]); i < end; ++i) {
      const Id id = ids[i];
      const std::int32_t slot =
          in_range(lookup, id) ? find(tags, row_of(lookup, id), shape) : kNoSlot;
      if (threadIdx.x % kWarp == 0) slots[i] = slot;
    }
  }
}

template <typename Key>
__global__ void locate_rows_kernel(std::int32_t* slots, const std::uint32_t* tags, const Key* rows,
                                   const std::uint32_t* count, CacheShape shape) {
  for (std::size_t i = this_warp(); i < *count; i += warp_count()) {
    const std::int32_t slot = find(tags, rows[i], shape);
    if (threadIdx.x % kWarp == 0) slots[i] = slot;
  }
}

__global__ void empty_slots_kernel(Rows<float> home, std::uint32_t* tags, SlotState* states,
                                   Rows<const float> slots, std::size_t slot_count,
                                   const Lookup* lookups, std::size_t features, CacheShape shape,
                                   RowLayout layout) {
  for (std::size_t slot = this_warp(); slot < slot_count; slot += warp_count()) {
    if (tags[slot] != kNoTag && states[slot].dirty != 0) {
      const auto row = static_cast<std::int64_t>(shape.row_of(slot / kWays, tags[slot]));
      const Lookup& table = table_of(lookups, features, row);
      copy_row(home, layout.at_home(table, row), slots, layout.at_slot(slot), table,
               layout.m_of_row);
    }
    __syncwarp();
    if (threadIdx.x % kWarp != 0) continue;
    tags[slot] = kNoTag;
    states[slot] = {};
  }
}

}  // namespace

template <typename Key, typename Id, typename Offset>
void cache_keys(Queue queue, std::span<Key> keys, std::span<std::uint32_t> positions,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape) {
  const unsigned blocks = blocks_for(lookups.size() * batch * kLanesOfBag);
  launch({"cache_keys", blocks, kThreads}, queue, cache_keys_kernel<Key, Id, Offset>, keys.data(),
         positions.data(), lookups.data(), lookups.size(), ids.data(), offsets.data(), batch,
         shape);
}

template <typename Key>
void bring_rows(Queue queue, std::span<float> cached, std::span<float> cached_m,
                std::span<float> cached_v, std::span<float> weights, std::span<float> m,
                std::span<float> v, std::span<std::uint32_t> tags, std::span<SlotState> states,
                std::span<CacheCounts> counts, std::span<RowMove> moves,
                std::span<const Lookup> lookups, std::span<const Key> unique,
                std::span<const std::uint32_t> count, CacheShape shape, RowLayout layout,
                Turn turn) {
  const unsigned blocks = blocks_for(unique.size() * kWarp);
  const Slots slots{tags.data(), states.data(), counts.data()};
  const Rows<float> at_slots{cached.data(), cached_m.data(), cached_v.data()};
  const Rows<float> home{weights.data(), m.data(), v.data()};
  launch({"bring_rows: slots", blocks, kThreads}, queue, claim_slots<Key>, slots, moves.data(),
         unique.data(), count.data(), shape, turn);
  launch({"bring_rows: rows", blocks, kThreads}, queue, move_rows, at_slots, home, lookups.data(),
         lookups.size(), moves.data(), count.data(), layout);
}

template <typename Id, typename Offset>
void locate_ids(Queue queue, std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape) {
  const unsigned blocks = blocks_for(lookups.size() * batch * kWarp);
  launch({"locate_ids", blocks, kThreads}, queue, locate_ids_kernel<Id, Offset>, slots.data(),
         tags.data(), lookups.data(), lookups.size(), ids.data(), offsets.data(), batch, shape);
}

template <typename Key>
void locate_rows(Queue queue, std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                 std::span<const Key> rows, std::span<const std::uint32_t> count,
                 CacheShape shape) {
  launch({"locate_rows", blocks_for(rows.size() * kWarp), kThreads}, queue, locate_rows_kernel<Key>,
         slots.data(), tags.data(), rows.data(), count.data(), shape);
}

void empty_slots(Queue queue, std::span<float> weights, std::span<float> m, std::span<float> v,
                 std::span<std::uint32_t> tags, std::span<SlotState> states,
                 std::span<const float> cached, std::span<const float> cached_m,
                 std::span<const float> cached_v, std::span<const Lookup> lookups, CacheShape shape,
                 RowLayout layout) {
  const Rows<float> home{weights.data(), m.data(), v.data()};
  const Rows<const float> slots{cached.data(), cached_m.data(), cached_v.data()};
  launch({"empty_slots", blocks_for(tags.size() * kWarp), kThreads}, queue, empty_slots_kernel,
         home, tags.data(), states.data(), slots, tags.size(), lookups.data(), lookups.size(),
         shape, layout);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_TYPES(Key, Id, Offset)                                                  \
  template void cache_keys<Key, Id, Offset>(Queue, std::span<Key>, std::span<std::uint32_t>, \
                                            std::span<const Lookup>, std::span<const Id>,    \
                                            std::span<const Offset>, std::size_t, CacheShape);
#define MILLRACE_FOR_KEY(Key)                                                                    \
  template void bring_rows<Key>(                                                                 \
      Queue, std::span<float>, std::span<float>, std::span<float>, std::span<float>,             \
      std::span<float>, std::span<float>, std::span<std::uint32_t>, std::span<SlotState>,        \
      std::span<CacheCounts>, std::span<RowMove>, std::span<const Lookup>, std::span<const Key>, \
      std::span<const std::uint32_t>, CacheShape, RowLayout, Turn);                              \
  template void locate_rows<Key>(Queue, std::span<std::int32_t>, std::span<const std::uint32_t>, \
                                 std::span<const Key>, std::span<const std::uint32_t>,           \
                                 CacheShape);                                                    \
  MILLRACE_FOR_TYPES(Key, std::int32_t, std::int32_t)                                            \
  MILLRACE_FOR_TYPES(Key, std::int32_t, std::int64_t)                                            \
  MILLRACE_FOR_TYPES(Key, std::int64_t, std::int32_t)                                            \
  MILLRACE_FOR_TYPES(Key, std::int64_t, std::int64_t)
#define MILLRACE_FOR_BAGS(Id, Offset)                                                          \
  template void locate_ids<Id, Offset>(                                                        \
      Queue, std::span<std::int32_t>, std::span<const std::uint32_t>, std::span<const Lookup>, \
      std::span<const Id>, std::span<const Offset>, std::size_t, CacheShape);
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
