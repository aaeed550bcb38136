#include "millrace/pipeline/kernels/launch.cuh"
#include "millrace/pipeline/kernels/words.cuh"
#include "model/cuda/kernels.hpp"

namespace millrace::model::cuda {
namespace {

__device__ bool in_range(const Lookup& lookup, std::int64_t id) {
  return static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(lookup.rows);
}

/** Returns the index of an id's row in the weights of all tables. */
__device__ std::size_t place_of(const Lookup& lookup, std::int64_t id) {
  return static_cast<std::size_t>(lookup.weights + id * lookup.width);
}

__device__ float bag_scale(const Lookup& lookup, std::size_t length) {
  return lookup.mean != 0 && length != 0 ? 1.0F / static_cast<float>(length) : 1.0F;
}

// One warp for each bag: groups of lanes take its ids in turn, and a tree adds the parts.
template <int size, typename Id, typename Offset>
__device__ void pool(const LookUpArguments<float, Id, Offset>& arguments, const Lookup& lookup,
                     std::size_t bag) {
  const std::size_t begin = arguments.bags.begin(bag), end = arguments.bags.end(bag);
  float* const out = arguments.pooled.row(bag % arguments.bags.batch, lookup);
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const float scale = bag_scale(lookup, end - begin);
  for (unsigned first = 0; first < words; first += warp.lanes) {
    const unsigned word = first + warp.lane;
    Word<size> sum = zero_word<size>();
#pragma unroll 4
    for (std::size_t i = begin + warp.group; i < end; i += warp.groups) {
      const auto id = static_cast<std::int64_t>(arguments.ids[i]);
      if (!in_range(lookup, id)) {
        if (word == 0) {
          atomicMin(&arguments.bad.data()->position, static_cast<unsigned long long>(i));
        }
      } else if (word < words) {
        const float factor = arguments.factors.empty() ? 1.0F : arguments.factors[i];
        const float* const row = arguments.tables.row(i, place_of(lookup, id));
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
__global__ void look_up_kernel(LookUpArguments<float, Id, Offset> arguments) {
  for (std::size_t bag = this_warp(); bag < arguments.bags.count(); bag += warp_count()) {
    const Lookup lookup = arguments.bags.lookup(bag);
    if (lookup.width % 4 == 0) {
      pool<4>(arguments, lookup, bag);
    } else {
      pool<1>(arguments, lookup, bag);
    }
  }
}

// Completes the description of a bad id while its batch still exists.
template <typename Id, typename Offset>
__global__ void name_bad_id(LookUpArguments<float, Id, Offset> arguments) {
  const auto& bags = arguments.bags;
  BadId& bad = arguments.bad[0];
  if (bad.position == BadId::kNone || bad.lookup != BadId::kNone) return;
  std::size_t feature = 0;
  while (bags.begin((feature + 1) * bags.batch) <= bad.position) ++feature;
  bad.lookup = feature;
  bad.value = static_cast<std::int64_t>(arguments.ids[bad.position]);
}

constexpr unsigned kLanesOfBag = 8;  // lanes that share the ids of a bag

template <typename Key, typename Id, typename Offset>
__global__ void linearise_kernel(LineariseArguments<Key, Id, Offset> to) {
  const unsigned lane = threadIdx.x % kLanesOfBag;
  for (std::size_t bag = this_thread() / kLanesOfBag; bag < to.bags.count();
       bag += thread_count() / kLanesOfBag) {
    const Lookup& lookup = to.bags.lookup(bag);
    const std::size_t end = to.bags.end(bag);
    for (std::size_t i = to.bags.begin(bag) + lane; i < end; i += kLanesOfBag) {
      const auto id = static_cast<std::int64_t>(to.ids[i]);
      to.rows[i] = in_range(lookup, id) ? static_cast<Key>(lookup.first_row + id) : to.none;
      to.positions[i] = static_cast<std::uint32_t>(i);
      to.bag_of[i] = static_cast<std::uint32_t>(bag);
    }
  }
}

template <int size, typename Id, typename Offset>
__device__ void bag_factor_gradients(const FactorGradientsArguments<float, Id, Offset>& arguments,
                                     const Lookup& lookup, std::size_t bag) {
  const std::size_t begin = arguments.bags.begin(bag), end = arguments.bags.end(bag);
  const float* const of_bag = arguments.pooled_gradient.row(bag % arguments.bags.batch, lookup);
  const unsigned words = static_cast<unsigned>(lookup.width) / size;
  const WarpRows warp{words};
  const float scale = bag_scale(lookup, end - begin);
  for (std::size_t first = begin; first < end; first += warp.groups) {
    const std::size_t i = first + warp.group;
    const std::int64_t id = i < end ? static_cast<std::int64_t>(arguments.ids[i]) : -1;
    float sum = 0;
    if (in_range(lookup, id)) {
      const float* const row = arguments.tables.row(i, place_of(lookup, id));
      for (unsigned word = warp.lane; word < words; word += warp.lanes) {
        sum += dot(load<size>(of_bag + word * size), load<size>(row + word * size));
      }
    }
    __syncwarp();
    sum = warp.over_lanes(sum);
    if (i < end && warp.lane == 0) arguments.gradients[i] = scale * sum;
  }
}

template <typename Id, typename Offset>
__global__ void factor_gradients_kernel(FactorGradientsArguments<float, Id, Offset> arguments) {
  for (std::size_t bag = this_warp(); bag < arguments.bags.count(); bag += warp_count()) {
    const Lookup lookup = arguments.bags.lookup(bag);
    if (lookup.width % 4 == 0) {
      bag_factor_gradients<4>(arguments, lookup, bag);
    } else {
      bag_factor_gradients<1>(arguments, lookup, bag);
    }
  }
}

}  // namespace

template <typename Id, typename Offset>
void look_up(Queue queue, const LookUpArguments<float, Id, Offset>& arguments) {
  launch({"look_up", blocks_for(arguments.bags.count() * kWarp), kThreads}, queue,
         look_up_kernel<Id, Offset>, arguments);
  launch({"look_up: bad id", 1, 1}, queue, name_bad_id<Id, Offset>, arguments);
}

template <typename Key, typename Id, typename Offset>
void linearise(Queue queue, const LineariseArguments<Key, Id, Offset>& arguments) {
  launch({"linearize", blocks_for(arguments.bags.count() * kLanesOfBag), kThreads}, queue,
         linearise_kernel<Key, Id, Offset>, arguments);
}

template <typename Id, typename Offset>
void factor_gradients(Queue queue, const FactorGradientsArguments<float, Id, Offset>& arguments) {
  launch({"factor_gradients", blocks_for(arguments.bags.count() * kWarp), kThreads}, queue,
         factor_gradients_kernel<Id, Offset>, arguments);
}

// NOLINTBEGIN: instantiations
#define MILLRACE_FOR_KEY(Key, Id, Offset) \
  template void linearise(Queue, const LineariseArguments<Key, Id, Offset>&);
#define MILLRACE_FOR_TYPES(Id, Offset)                                                       \
  template void look_up(Queue, const LookUpArguments<float, Id, Offset>&);                   \
  template void factor_gradients(Queue, const FactorGradientsArguments<float, Id, Offset>&); \
  MILLRACE_FOR_KEY(std::uint32_t, Id, Offset)                                                \
  MILLRACE_FOR_KEY(std::uint64_t, Id, Offset)
MILLRACE_FOR_TYPES(std::int32_t, std::int32_t)
MILLRACE_FOR_TYPES(std::int32_t, std::int64_t)
MILLRACE_FOR_TYPES(std::int64_t, std::int32_t)
MILLRACE_FOR_TYPES(std::int64_t, std::int64_t)
#undef MILLRACE_FOR_TYPES
#undef MILLRACE_FOR_KEY
// NOLINTEND

}  // namespace millrace::model::cuda
