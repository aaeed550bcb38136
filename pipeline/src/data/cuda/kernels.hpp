#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace::cuda {

/** @brief The type of `Operation::cuda`; empty in a build without CUDA. */
using Launch = std::function<void(void* native_stream)>;

struct DeviceSegment {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
};

/** @brief Copies each segment; addresses and sizes are multiples of 4. */
[[nodiscard]] Launch copy_segments(std::vector<DeviceSegment> segments);

/** @brief Computes the exclusive sums of lengths, followed by the total. */
struct PrefixSum {
  const void* lengths = nullptr;
  void* offsets = nullptr;  ///< count + 1
  std::size_t count = 0;
  IndexType type = IndexType::int32;
  void* scratch = nullptr;  ///< prefix_sum_scratch(count) bytes
};
[[nodiscard]] Launch prefix_sum(const PrefixSum& sum);

/** @brief Returns the bytes of scratch memory that `prefix_sum` needs, on any device. */
[[nodiscard]] constexpr std::size_t prefix_sum_scratch(std::size_t count) noexcept {
  return 4096 + count / 256 * 32;  // CUB needs 16 bytes a tile, of 896 or more
}

}  // namespace millrace::cuda
