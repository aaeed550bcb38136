#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.cuh"
#include "model/cuda/words.cuh"

namespace millrace::model::cuda {
namespace {

template <typename Id, typename Offset>
struct Bags {
  const Id* ids;
  const Offset* offsets;
  const float* factors;  // null: 1
  const Lookup* lookups;
  std::size_t features;
};

// The weights of rows, where a batch finds them: in their table, or at slots of a cache.
struct TableRows {
  const float* weights;
  const float* cached;
  const std::int32_t* slots;  // of each id; null: tables are not cached
  std::size_t stride;

  __device__ const float* row(std::size_t position, std::size_t at) const {
    if (slots == nullptr || slots[position] < 0) return weights + at;
    return cached + static_cast<std::size_t>(slots[position]) * stride;
  }
};

__device__ bool in_range(const Lookup& lookup, std::int64_t id) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(lookup.rows);
}

__device__ float bag_scale(const Lookup& lookup, std::size_t length) {
  return lookup.mean != 0 && length != 0 ? 1.0F / static_cast<float>(length) : 1.0F;
}

// One warp a bag: groups of lanes take its ids in turn, and add up in a tree.
template <int size, typename Id, typename Offset>
__device__ void pool(float* out, BadId* bad, const TableRows& rows, const Lookup& lookup,
                     const Bags<Id, Offset>& bags, std::size_t begin, std::size_t end) {
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const float scale = bag_scale(lookup, end - begin);
  for (unsigned first = 0; first < words; first += warp.lanes) {
    const unsigned word = first + warp.lane;
    Word<size> sum = zero_word<size>();
#pragma unroll 4
    for (std::size_t i = begin + warp.group; i < end; i += warp.groups) {
      const auto id = static_cast<std::int64_t>(bags.ids[i]);
      if (!in_range(lookup, id)) {
        if (word == 0) atomicMin(&bad->position, static_cast<unsigned long long>(i));
      } else if (word < words) {
        const float factor = bags.factors == nullptr ? 1.0F : bags.factors[i];
        const float* const row = rows.row(i, lookup.weights + id * lookup.width);
        add_scaled(sum, load<size>(row + word * size), factor);
      }
    }
    __syncwarp();
    sum = warp.over_groups(sum);
    if (warp.group != 0 || word >= words) continue;
#pragma unroll
    for (int d = 0; d < size; ++d) sum.value[d] *= scale;
    store(out + word * size, sum);
  }
}

template <typename Id, typename Offset>
__global__ void look_up_kernel(float* pooled, BadId* bad, TableRows rows, Bags<Id, Offset> bags,
                               PooledShape shape) {
  for (std::size_t bag = this_warp(); bag < bags.features * shape.batch; bag += warp_count()) {
    const Lookup lookup = bags.lookups[bag / shape.batch];
    float* const out = pooled + bag % shape.batch * shape.stride + shape.column + lookup.column;
    const auto begin = static_cast<std::size_t>(bags.offsets[bag]);
    const auto end = static_cast<std::size_t>(bags.offsets[bag + 1]);
    if (lookup.width % 4 == 0) {
      pool<4>(out, bad, rows, lookup, bags, begin, end);
    } else {
      pool<1>(out, bad, rows, lookup, bags, begin, end);
    }
  }
}

// Completes what is known of a bad id while its batch is there.
template <typename Id, typename Offset>
__global__ void name_bad_id(BadId* bad, Bags<Id, Offset> bags, std::size_t batch) {
  if (bad->position == BadId::kNone || bad->lookup != BadId::kNone) return;
  std::size_t feature = 0;
  while (static_cast<unsigned long long>(bags.offsets[(feature + 1) * batch]) <= bad->position) {
    ++feature;
  }
  bad->lookup = feature;
  bad->value = static_cast<std::int64_t>(bags.ids[bad->position]);
}

constexpr unsigned kLanesOfBag = 8;  // that share its ids where nothing else is to do

template <typename Key, typename Id, typename Offset>
__global__ void linearise_kernel(Key* rows, std::uint32_t* positions, std::uint32_t* bag_of,
                                 Bags<Id, Offset> bags, std::size_t batch, Key none) {
  const unsigned lane = threadIdx.x % kLanesOfBag;
  for (std::size_t bag = this_thread() / kLanesOfBag; bag < bags.features * batch;
       bag += thread_count() / kLanesOfBag) {
    const Lookup& lookup = bags.lookups[bag / batch];
    const auto end = static_cast<std::size_t>(bags.offsets[bag + 1]);
    for (std::size_t i = static_cast<std::size_t>(bags.offsets[bag]) + lane; i < end;
         i += kLanesOfBag) {
      const auto id = static_cast<std::int64_t>(bags.ids[i]);
      rows[i] = in_range(lookup, id) ? static_cast<Key>(lookup.first_row + id) : none;
      positions[i] = static_cast<std::uint32_t>(i);
      bag_of[i] = static_cast<std::uint32_t>(bag);
    }
  }
}

template <int size, typename Id, typename Offset>
__device__ void bag_factor_gradients(float* out, const float* of_bag, const TableRows& rows,
                                     const Lookup& lookup, const Bags<Id, Offset>& bags,
                                     std::size_t begin, std::size_t end) {
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const float scale = bag_scale(lookup, end - begin);
  for (std::size_t first = begin; first < end; first += warp.groups) {
    const std::size_t i = first + warp.group;
    const std::int64_t id = i < end ? static_cast<std::int64_t>(bags.ids[i]) : -1;
    float sum = 0;
    if (in_range(lookup, id)) {
      const float* const row = rows.row(i, lookup.weights + id * lookup.width);
      for (unsigned word = warp.lane; word < words; word += warp.lanes) {
        sum += dot(load<size>(of_bag + word * size), load<size>(row + word * size));
      }
    }
    __syncwarp();
    sum = warp.over_lanes(sum);
    if (i < end && warp.lane == 0) out[i] = scale * sum;
  }
}

template <typename Id, typename Offset>
__global__ void factor_gradients_kernel(float* out, const float* gradient, TableRows rows,
                                        Bags<Id, Offset> bags, PooledShape shape) {
  for (std::size_t bag = this_warp(); bag < bags.features * shape.batch; bag += warp_count()) {
    const Lookup lookup = bags.lookups[bag / shape.batch];
    const float* const of_bag =
        gradient + bag % shape.batch * shape.stride + shape.column + lookup.column;
    const auto begin = static_cast<std::size_t>(bags.offsets[bag]);
    const auto end = static_cast<std::size_t>(bags.offsets[bag + 1]);
    if (lookup.width % 4 == 0) {
      bag_factor_gradients<4>(out, of_bag, rows, lookup, bags, begin, end);
    } else {
      bag_factor_gradients<1>(out, of_bag, rows, lookup, bags, begin, end);
    }
  }
}

}  // namespace

template <typename Id, typename Offset>
void look_up(Queue queue, std::span<float> pooled, std::span<BadId> bad,
             std::span<const float> weights, std::span<const float> cached,
             std::span<const std::int32_t> slots, std::span<const Lookup> lookups,
             std::span<const Id> ids, std::span<const Offset> offsets,
             std::span<const float> factors, PooledShape shape, std::size_t slot_stride) {
  const Bags<Id, Offset> bags{ids.data(), offsets.data(), factors.data(), lookups.data(),
                              lookups.size()};
  const unsigned blocks = blocks_for(lookups.size() * shape.batch * kWarp);
  const TableRows rows{weights.data(), cached.data(), slots.empty() ? nullptr : slots.data(),
                       slot_stride};
  launch({"look_up", blocks, kThreads}, queue, look_up_kernel<Id, Offset>, pooled.data(),
         bad.data(), rows, bags, shape);
  launch({"look_up: bad id", 1, 1}, queue, name_bad_id<Id, Offset>, bad.data(), bags, shape.batch);
}

template <typename Key, typename Id, typename Offset>
void linearise(Queue queue, std::span<Key> rows, std::span<std::uint32_t> positions,
               std::span<std::uint32_t> bag_of, std::span<const Lookup> lookups,
               std::span<const Id> ids, std::span<const Offset> offsets, std::size_t batch,
               Key none) {
  const Bags<Id, Offset> bags{ids.data(), offsets.data(), nullptr, lookups.data(), lookups.size()};
  const unsigned blocks = blocks_for(lookups.size() * batch * kLanesOfBag);
  launch({"linearise", blocks, kThreads}, queue, linearise_kernel<Key, Id, Offset>, rows.data(),
         positions.data(), bag_of.data(), bags, batch, none);
}

template <typename Id, typename Offset>
void factor_gradients(Queue queue, std::span<float> out, std::span<const float> gradient,
                      std::span<const float> weights, std::span<const float> cached,
                      std::span<const std::int32_t> slots, std::span<const Lookup> lookups,
                      std::span<const Id> ids, std::span<const Offset> offsets, PooledShape shape,
                      std::size_t slot_stride) {
  const Bags<Id, Offset> bags{ids.data(), offsets.data(), nullptr, lookups.data(), lookups.size()};
  const unsigned blocks = blocks_for(lookups.size() * shape.batch * kWarp);
  const TableRows rows{weights.data(), cached.data(), slots.empty() ? nullptr : slots.data(),
                       slot_stride};
  launch({"factor_gradients", blocks, kThreads}, queue, factor_gradients_kernel<Id, Offset>,
         out.data(), gradient.data(), rows, bags, shape);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key, Id, Offset)                                        \
  template void linearise<Key, Id, Offset>(                                      \
      Queue, std::span<Key>, std::span<std::uint32_t>, std::span<std::uint32_t>, \
      std::span<const Lookup>, std::span<const Id>, std::span<const Offset>, std::size_t, Key);
#define MILLRACE_FOR_TYPES(Id, Offset)                                                           \
  template void look_up<Id, Offset>(                                                             \
      Queue, std::span<float>, std::span<BadId>, std::span<const float>, std::span<const float>, \
      std::span<const std::int32_t>, std::span<const Lookup>, std::span<const Id>,               \
      std::span<const Offset>, std::span<const float>, PooledShape, std::size_t);                \
  template void factor_gradients<Id, Offset>(                                                    \
      Queue, std::span<float>, std::span<const float>, std::span<const float>,                   \
      std::span<const float>, std::span<const std::int32_t>, std::span<const Lookup>,            \
      std::span<const Id>, std::span<const Offset>, PooledShape, std::size_t);                   \
  MILLRACE_FOR_KEY(std::uint32_t, Id, Offset)                                                    \
  MILLRACE_FOR_KEY(std::uint64_t, Id, Offset)
MILLRACE_FOR_TYPES(std::int32_t, std::int32_t)
MILLRACE_FOR_TYPES(std::int32_t, std::int64_t)
MILLRACE_FOR_TYPES(std::int64_t, std::int32_t)
MILLRACE_FOR_TYPES(std::int64_t, std::int64_t)
#undef MILLRACE_FOR_TYPES
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::model::cuda
