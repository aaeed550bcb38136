#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/**
 * @brief The stream on which operations on jagged tensors are enqueued, and the memory of their
 * results.
 */
struct JaggedScope {
  Allocator& memory;  ///< allocates the results; their owner stream is `stream`
  StreamRef stream;   ///< must be ordered after the work that wrote the operands
  /// On a virtual device: count time and accesses, without running host kernels.
  bool cost_only = false;
  Tag tag{};  ///< the tag that `memory` counts the results under
};

// All functions below enqueue on the scope's stream and never block. They record the use of owned
// operands; the uses of borrowed operands are recorded by their batch. Work enqueued on the stream
// later may use the results. All sizes are known on the host, so nothing is read back.
// All throw out_of_memory and DeviceError like `Allocator::allocate` and `Device::launch`.

/** @brief Allocates a tensor with uninitialized contents. @throws like `JaggedLayout::check` */
[[nodiscard]] KeyedJaggedTensor empty_like(const JaggedScope& scope, const JaggedLayout& layout);

/**
 * @brief Copies every tensor of `from` into `to`.
 * @param kind  direction of the copy: each side may be device memory or pinned memory
 * @throws std::invalid_argument if the layouts differ
 */
void copy_into(const JaggedScope& scope, const KeyedJaggedTensor& from, const KeyedJaggedTensor& to,
               CopyKind kind = CopyKind::device_to_device);

/** @brief Copies `pinned` to the device. `pinned` must live until the copy has run. */
[[nodiscard]] KeyedJaggedTensor to_device(const JaggedScope& scope,
                                          const KeyedJaggedTensor& pinned);

/**
 * @brief Makes a tensor from lengths, values and weights that exist already.
 * @param tensors  all members except `offsets`, which is computed as the exclusive sum of `lengths`
 * @throws std::invalid_argument like the constructor of KeyedJaggedTensor
 */
[[nodiscard]] KeyedJaggedTensor from_lengths(const JaggedScope& scope, const JaggedLayout& layout,
                                             KeyedJaggedTensor::Tensors tensors);

/**
 * @brief Selects and reorders keys.
 * @param order  positions of the keys in `input`; keys that are not listed are left out
 * @throws std::invalid_argument if a position is out of range or appears twice
 */
[[nodiscard]] KeyedJaggedTensor permute(const JaggedScope& scope, const KeyedJaggedTensor& input,
                                        std::span<const std::size_t> order);

/**
 * @brief Splits a tensor by keys. The parts share the memory of `input`, except for their offsets.
 * @param keys_of_parts  number of keys of each part, in order
 * @throws std::invalid_argument if they do not add up to the number of keys
 */
[[nodiscard]] std::vector<KeyedJaggedTensor> split(const JaggedScope& scope,
                                                   const KeyedJaggedTensor& input,
                                                   std::span<const std::size_t> keys_of_parts);

/**
 * @brief Concatenates the keys of all parts in new memory. Parts without keys are skipped.
 * @throws std::invalid_argument if batch sizes, types or weights differ, or a key appears twice
 */
[[nodiscard]] KeyedJaggedTensor concat(const JaggedScope& scope,
                                       std::span<const KeyedJaggedTensor> parts);

}  // namespace millrace
