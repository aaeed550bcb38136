#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/** @brief A sparse feature, and the embedding table that its ids are rows of. */
struct SparseFeature {
  std::string name;
  std::string table;     ///< several features may share one
  std::size_t rows = 0;  ///< of the table: ids are below
};

/** @brief What the batches of a source look like; a model's tables are made from it. */
struct InputSchema {
  std::vector<std::string> dense;
  std::vector<SparseFeature> sparse;    ///< the keys of the unweighted tensor
  std::vector<SparseFeature> weighted;  ///< and of the weighted one
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;

  /**
   * @throws std::invalid_argument for a name that is there twice, a table without rows or of two
   *         sizes, or rows that the type of the values can not count
   */
  void check() const;
};

/** @brief The names of features, as a KeyedJaggedTensor has them. */
[[nodiscard]] Keys keys_of(const std::vector<SparseFeature>& features);

/** @brief An id of a batch that is not a row of its table. The message names all of these. */
class InvalidIdError : public std::out_of_range {
 public:
  /** @param example  of the batch, from 0 */
  InvalidIdError(const SparseFeature& feature, std::int64_t id, std::size_t example);

  [[nodiscard]] const SparseFeature& feature() const noexcept { return feature_; }
  [[nodiscard]] std::int64_t id() const noexcept { return id_; }
  [[nodiscard]] std::size_t example() const noexcept { return example_; }

 private:
  SparseFeature feature_;
  std::int64_t id_;
  std::size_t example_;
};

/**
 * @brief Reads every id of a batch in host memory.
 * @throws InvalidIdError for the first id that is not a row of its table; std::invalid_argument if
 *         the keys are not the schema's
 */
void check_ids(const InputTensors& batch, const InputSchema& schema);

}  // namespace millrace
