#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace {

/** @brief Where operations on jagged tensors are enqueued, and where their results live. */
struct JaggedScope {
  Allocator& memory;  ///< results are its memory, owned by `stream`
  StreamRef stream;   ///< must be ordered after what wrote the operands
  bool cost_only =
      false;  ///< no host kernels: a virtual device accounts for time and accesses only
  Tag tag{};  ///< of `memory`
};

// Each of these enqueues on the scope's stream and never waits. Operands that are owned are
// recorded as used there; borrowed ones are their batch's to record. Results are there for the work
// that is enqueued on the stream later. Sizes are known on the host, so that nothing is read back.
// All throw out_of_memory and DeviceError as `Allocator::allocate` and `Device::launch`.

/** @brief Room for a tensor of this layout, with nothing in it. @throws as `JaggedLayout::check` */
[[nodiscard]] KeyedJaggedTensor empty_like(const JaggedScope& scope, const JaggedLayout& layout);

/**
 * @brief Copies every tensor of `from` into `to`.
 * @param kind  which way: `from` and `to` may be device memory or pinned memory
 * @throws std::invalid_argument if the layouts differ
 */
void copy_into(const JaggedScope& scope, const KeyedJaggedTensor& from, const KeyedJaggedTensor& to,
               CopyKind kind = CopyKind::device_to_device);

/** @brief A copy on the device. `pinned` must live until the copy is through. */
[[nodiscard]] KeyedJaggedTensor to_device(const JaggedScope& scope,
                                          const KeyedJaggedTensor& pinned);

/**
 * @brief The tensor of lengths, values and weights that are there already: finds the offsets.
 * @param tensors  all but `offsets`, which is made: the exclusive sum of the lengths
 * @throws std::invalid_argument as the constructor of KeyedJaggedTensor
 */
[[nodiscard]] KeyedJaggedTensor from_lengths(const JaggedScope& scope, const JaggedLayout& layout,
                                             KeyedJaggedTensor::Tensors tensors);

/**
 * @brief The keys at the positions `order`, in that order; it may leave out keys.
 * @throws std::invalid_argument if a position is not one, or is there twice
 */
[[nodiscard]] KeyedJaggedTensor permute(const JaggedScope& scope, const KeyedJaggedTensor& input,
                                        std::span<const std::size_t> order);

/**
 * @brief Cuts the keys into runs of these many; the parts share the memory of `input`, except that
 *        each has offsets of its own.
 * @throws std::invalid_argument if the sizes do not add up to the keys
 */
[[nodiscard]] std::vector<KeyedJaggedTensor> split(const JaggedScope& scope,
                                                   const KeyedJaggedTensor& input,
                                                   std::span<const std::size_t> keys_of_parts);

/**
 * @brief The keys of all parts, one after another, in memory of its own. Parts of no keys are
 *        skipped.
 * @throws std::invalid_argument if batch sizes, types or weights disagree, or a key is there twice
 */
[[nodiscard]] KeyedJaggedTensor concat(const JaggedScope& scope,
                                       std::span<const KeyedJaggedTensor> parts);

}  // namespace millrace
