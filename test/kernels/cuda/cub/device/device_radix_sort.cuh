#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cub/temporary_storage.hpp"

namespace cub {

struct DeviceRadixSort {
  /** @brief Stable sort of unsigned keys by their bits `begin` to `end` - 1. */
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* storage, std::size_t& bytes, const Key* keys, Key* keys_out,
                               const Value* values, Value* values_out, int count, int begin,
                               int end, cudaStream_t) {
    if (count < 0 || begin < 0 || end < begin || end > static_cast<int>(8 * sizeof(Key))) {
      return cudaErrorInvalidValue;
    }
    const auto size = static_cast<std::size_t>(count);
    const std::size_t needed =
        size * (sizeof(Key) + sizeof(Value)) + ::millrace::test::kernels::storage_for(size);
    return ::millrace::test::kernels::with_storage(storage, bytes, needed, [&] {
      const std::uint64_t below = end == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
      const auto digits = [&](std::size_t i) { return (keys[i] & below) >> begin; };
      std::vector<std::size_t> order(size);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return digits(a) < digits(b); });
      for (std::size_t i = 0; i < size; ++i) {
        keys_out[i] = keys[order[i]];
        values_out[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
