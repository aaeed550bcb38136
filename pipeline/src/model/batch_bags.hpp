#pragma once

#include <cstddef>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "model/enqueue.hpp"
#include "model/lookup.hpp"

namespace millrace::model {

/** @brief A batch, as kernels see it. */
struct BatchBags {
  const KeyedJaggedTensor& batch;
  std::size_t features = 0;
  const float* factors = nullptr;

  [[nodiscard]] std::size_t ids_count() const { return batch.value_count(); }
  template <typename Id>
  [[nodiscard]] auto ids() const {
    return reads(static_cast<const Id*>(batch.values().data()), ids_count());
  }
  template <typename Offset>
  [[nodiscard]] auto offsets() const {
    return reads(static_cast<const Offset*>(batch.offsets().data()),
                 features * batch.batch_size() + 1);
  }
  [[nodiscard]] auto weights() const { return reads(factors, ids_count()); }
  [[nodiscard]] PooledShape shape(const PooledMatrix& pooled) const {
    return {batch.batch_size(), pooled.stride, pooled.column};
  }
  /** @brief The elements of the matrix from its start to the end of this part. */
  [[nodiscard]] std::size_t extent(const PooledMatrix& pooled) const {
    return batch.batch_size() * pooled.stride;
  }
};

}  // namespace millrace::model
