#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/batch_tensor.hpp"

namespace millrace {

enum class IndexType : unsigned char { int32, int64 };

[[nodiscard]] constexpr std::size_t bytes_of(IndexType type) noexcept {
  return type == IndexType::int32 ? sizeof(std::int32_t) : sizeof(std::int64_t);
}
/** @brief "int32", "int64" */
[[nodiscard]] std::string_view to_string(IndexType type) noexcept;

/** @brief Names of features, in order; shared by all the batches of a source. */
using Keys = std::shared_ptr<const std::vector<std::string>>;
[[nodiscard]] Keys make_keys(std::vector<std::string> names);

/** @brief What the host knows of a KeyedJaggedTensor without reading its memory. */
struct JaggedLayout {
  Keys keys;                        ///< F features; null: none
  std::size_t batch_size = 0;       ///< B examples: the stride
  std::vector<std::size_t> counts;  ///< values of each key; N in all
  bool weighted = false;            ///< one float for each value
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;  ///< of lengths and offsets

  [[nodiscard]] std::size_t key_count() const noexcept { return keys ? keys->size() : 0; }
  [[nodiscard]] std::size_t value_count() const noexcept;
  /** @brief Bags: F x B. */
  [[nodiscard]] std::size_t bag_count() const noexcept { return key_count() * batch_size; }

  [[nodiscard]] std::size_t value_bytes() const noexcept;
  [[nodiscard]] std::size_t length_bytes() const noexcept;  ///< F x B of them
  [[nodiscard]] std::size_t offset_bytes() const noexcept;  ///< F x B + 1, or 0 without keys
  [[nodiscard]] std::size_t weight_bytes() const noexcept;

  /**
   * @throws std::invalid_argument that says which of them disagree: counts and keys, N and the
   *         type of the offsets, values without a batch, a key that is there twice
   */
  void check() const;
  [[nodiscard]] bool operator==(const JaggedLayout& other) const;  ///< keys by their names
};

/**
 * @brief For each of F keys (features) and each of B examples a list of ids: sparse features.
 *
 * Key-major, as TorchRec has it: bag (f, b) is number f * B + b. `lengths` [F x B] says how many
 * ids it has, `offsets` [F x B + 1] where in `values` [N] (and `weights` [N], floats) they begin;
 * offsets[0] is 0 and offsets[F x B] is N. So the values of a key are one range, whose size the
 * host knows, and neither splitting nor permuting has to ask the device.
 *
 * The memory is pinned, or a device's. Copies share it; see BatchTensor for who owns it.
 */
class KeyedJaggedTensor {
 public:
  struct Tensors {
    BatchTensor values, lengths, offsets, weights;
  };

  KeyedJaggedTensor() = default;  ///< no keys and no examples
  /**
   * @brief Puts a layout on memory. What is in there is not looked at.
   * @throws std::invalid_argument as `JaggedLayout::check`, or if a tensor is not as large as the
   *         layout says
   */
  KeyedJaggedTensor(JaggedLayout layout, Tensors tensors);

  [[nodiscard]] const JaggedLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const std::string& key(std::size_t index) const { return (*layout_.keys)[index]; }
  [[nodiscard]] std::size_t key_count() const noexcept { return layout_.key_count(); }
  [[nodiscard]] std::size_t batch_size() const noexcept { return layout_.batch_size; }
  [[nodiscard]] std::size_t value_count() const noexcept {
    return value_starts_.empty() ? 0 : value_starts_.back();
  }
  /** @brief Number of values of key `index`. */
  [[nodiscard]] std::size_t value_count(std::size_t index) const { return layout_.counts[index]; }
  /** @brief Where in `values` those of key `index` begin; `key_count()` gives N. */
  [[nodiscard]] std::size_t value_start(std::size_t index) const { return value_starts_[index]; }
  [[nodiscard]] bool weighted() const noexcept { return layout_.weighted; }
  [[nodiscard]] bool empty() const noexcept { return key_count() == 0; }

  [[nodiscard]] const BatchTensor& values() const noexcept { return tensors_.values; }
  [[nodiscard]] const BatchTensor& lengths() const noexcept { return tensors_.lengths; }
  [[nodiscard]] const BatchTensor& offsets() const noexcept { return tensors_.offsets; }
  [[nodiscard]] const BatchTensor& weights() const noexcept { return tensors_.weights; }

  /** @brief The position of a key. @throws std::invalid_argument that lists the keys there are */
  [[nodiscard]] std::size_t find(std::string_view key) const;

  /** @brief `stream` uses it too; borrowed memory is left to its owner. */
  void record_use(StreamRef stream) const;

 private:
  JaggedLayout layout_;
  Tensors tensors_;
  std::vector<std::size_t> value_starts_;
};

}  // namespace millrace
