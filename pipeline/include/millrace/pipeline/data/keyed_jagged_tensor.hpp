#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/batch_tensor.hpp"

namespace millrace {

/** @brief The type of ids, or of lengths and offsets. */
enum class IndexType : unsigned char { int32, int64 };

/** @return bytes of one number of this type */
[[nodiscard]] constexpr std::size_t bytes_of(IndexType type) noexcept {
  return type == IndexType::int32 ? sizeof(std::int32_t) : sizeof(std::int64_t);
}
/** @brief "int32", "int64" */
[[nodiscard]] std::string_view to_string(IndexType type) noexcept;

/** @brief Names of features, in order; shared by all batches of a source. */
using Keys = std::shared_ptr<const std::vector<std::string>>;
/** @brief Makes keys that batches can share. The order of `names` is kept. */
[[nodiscard]] Keys make_keys(std::vector<std::string> names);

/** @brief The properties of a KeyedJaggedTensor that the host knows without reading its memory. */
struct JaggedLayout {
  Keys keys;                        ///< F features; nullptr: no features
  std::size_t batch_size = 0;       ///< B examples (the stride)
  std::vector<std::size_t> counts;  ///< number of values of each key; their sum is N
  bool weighted = false;            ///< whether each value has a weight (float)
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;  ///< type of lengths and offsets

  [[nodiscard]] std::size_t key_count() const noexcept { return keys ? keys->size() : 0; }  ///< F
  [[nodiscard]] std::size_t value_count() const noexcept;                                   ///< N
  /** @brief Number of bags: F x B. */
  [[nodiscard]] std::size_t bag_count() const noexcept { return key_count() * batch_size; }

  [[nodiscard]] std::size_t value_bytes() const noexcept;   ///< bytes of N values
  [[nodiscard]] std::size_t length_bytes() const noexcept;  ///< bytes of F x B lengths
  /** @brief Bytes of F x B + 1 offsets; 0 if F is 0. */
  [[nodiscard]] std::size_t offset_bytes() const noexcept;
  [[nodiscard]] std::size_t weight_bytes() const noexcept;  ///< bytes of N weights; 0 if unweighted

  /**
   * @brief Checks that the members agree.
   * @throws std::invalid_argument if the numbers of counts and keys differ, N does not fit in
   *         `length_type`, there are values but no examples, or a key appears twice
   */
  void check() const;
  [[nodiscard]] bool operator==(const JaggedLayout& other) const;  ///< compares keys by name
};

/**
 * @brief Sparse features: a list of ids for each of F keys (features) and each of B examples.
 *
 * The order is key-major, as in TorchRec: bag (f, b) has number f * B + b. `lengths` [F x B] is the
 * number of ids of each bag. `offsets` [F x B + 1] is the index of its first id in `values` [N] and
 * in `weights` [N] (floats); offsets[0] is 0 and offsets[F x B] is N. The values of one key are
 * therefore one range whose size the host knows, so that `split` and `permute` do not read from the
 * device.
 *
 * The memory is pinned host memory or device memory. Copies of the object share it; BatchTensor
 * describes its ownership.
 */
class KeyedJaggedTensor {
 public:
  /** @brief The memory. An unweighted tensor has no `weights`. */
  struct Tensors {
    BatchTensor values, lengths, offsets, weights;
  };

  KeyedJaggedTensor() = default;  ///< no keys and no examples
  /**
   * @brief Describes existing memory. The contents are not read.
   * @param layout   the shape; `check` holds for it
   * @param tensors  all in pinned host memory, or all in device memory
   * @throws std::invalid_argument like `JaggedLayout::check`, or if the size of a tensor is not
   *         that of the layout
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
  /** @brief Index in `values` of the first value of key `index`; N for `key_count()`. */
  [[nodiscard]] std::size_t value_start(std::size_t index) const { return value_starts_[index]; }
  [[nodiscard]] bool weighted() const noexcept { return layout_.weighted; }
  [[nodiscard]] bool empty() const noexcept { return key_count() == 0; }

  [[nodiscard]] const BatchTensor& values() const noexcept { return tensors_.values; }
  [[nodiscard]] const BatchTensor& lengths() const noexcept { return tensors_.lengths; }
  [[nodiscard]] const BatchTensor& offsets() const noexcept { return tensors_.offsets; }
  [[nodiscard]] const BatchTensor& weights() const noexcept { return tensors_.weights; }

  /**
   * @brief Finds a key by its name.
   * @return the key's index, from 0
   * @throws std::invalid_argument for an unknown key; the message lists the known ones
   */
  [[nodiscard]] std::size_t find(std::string_view key) const;

  /**
   * @brief Records that `stream` uses the owned tensors; does nothing for borrowed ones. Their
   *        memory is reused only after the work that `stream` does until the free.
   */
  void record_use(StreamRef stream) const;

 private:
  JaggedLayout layout_;
  Tensors tensors_;
  std::vector<std::size_t> value_starts_;
};

}  // namespace millrace
