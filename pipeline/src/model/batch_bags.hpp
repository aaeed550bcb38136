#pragma once

#include <cstddef>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "model/embedding_arguments.hpp"

namespace millrace::model {

/**
 * @brief Returns the matrix of which an operation writes the columns of one part. The first part
 * may overwrite anything; later parts must keep the columns of earlier ones.
 */
[[nodiscard]] inline ArrayView<float> written_part(const PooledMatrix& part, std::size_t rows) {
  const std::size_t size = rows * part.stride;
  return part.column == 0 ? writes(part.data, size) : updates(part.data, size);
}

/** @brief A batch, for kernels. */
struct BatchBags {
  const KeyedJaggedTensor& batch;
  ArrayView<const Lookup> lookups;  ///< one for each feature
  const float* factors = nullptr;   ///< factor of each id; null: 1

  [[nodiscard]] std::size_t ids_count() const { return batch.value_count(); }
  template <typename Id>
  [[nodiscard]] ArrayView<const Id> ids() const {
    return reads(static_cast<const Id*>(batch.values().data()), ids_count());
  }
  template <typename Offset>
  [[nodiscard]] BagLayout<Offset> layout() const {
    const auto* const offsets = static_cast<const Offset*>(batch.offsets().data());
    return {lookups, reads(offsets, lookups.size() * batch.batch_size() + 1), batch.batch_size()};
  }
  [[nodiscard]] ArrayView<const float> weights() const { return reads(factors, ids_count()); }

  /** @brief Returns pooled rows to read. */
  [[nodiscard]] PooledPart<const float> read(const PooledMatrix& pooled) const {
    return {reads(static_cast<const float*>(pooled.data), batch.batch_size() * pooled.stride),
            pooled.stride, pooled.column};
  }
  /** @brief Returns pooled rows to write: all columns of this part. */
  [[nodiscard]] PooledPart<float> write(const PooledMatrix& pooled) const {
    return {written_part(pooled, batch.batch_size()), pooled.stride, pooled.column};
  }
};

}  // namespace millrace::model
