#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/** @brief A sparse feature and the embedding table in which its ids are row numbers. */
struct SparseFeature {
  std::string name;
  std::string table;     ///< several features may share a table
  std::size_t rows = 0;  ///< rows of the table; ids are less than this
};

/** @brief Names and types of the features of a source; a model's tables are made from it. */
struct InputSchema {
  std::vector<std::string> dense;
  std::vector<SparseFeature> sparse;    ///< keys of the unweighted tensor
  std::vector<SparseFeature> weighted;  ///< keys of the weighted tensor
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;

  /**
   * @brief Checks the schema.
   * @throws std::invalid_argument for a duplicate name, a table without rows or with two sizes, or
   *         more rows than `value_type` can number
   */
  void check() const;
};

/** @brief The names of `features`, as the keys of a KeyedJaggedTensor. */
[[nodiscard]] Keys keys_of(const std::vector<SparseFeature>& features);

/** @brief An id is not a row of its table. The message names feature, table, id and example. */
class InvalidIdError : public std::out_of_range {
 public:
  /** @param example  index of the example in the batch, from 0 */
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
 * @brief Checks every id of a batch.
 * @param batch  in host memory
 * @throws InvalidIdError for the first id that is not a row of its table
 * @throws std::invalid_argument if the keys are not those of the schema
 */
void check_ids(const InputTensors& batch, const InputSchema& schema);

}  // namespace millrace
