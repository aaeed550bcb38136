#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/input_schema.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"

namespace millrace {

/** @brief What one table has other than all tables. */
struct TableDescription {
  std::optional<std::size_t> rows;  ///< in place of what the data say
  std::optional<std::size_t> width;
  std::optional<Pooling> pooling;
};

/**
 * @brief A SparseNN as people write it down; its features, and the rows of its tables, are those of
 *        the data. docs/train.md has the keys of the JSON form, `millrace.model/1`.
 */
struct ModelDescription {
  std::size_t width = 16;  ///< of every table
  Pooling pooling = Pooling::sum;
  std::map<std::string, TableDescription> tables;  ///< by name
  std::map<std::string, std::size_t> position_weights;
  std::vector<std::size_t> dense_arch{64, 16};
  std::vector<std::size_t> over_arch{64};
  Interaction interaction = Interaction::dot;
  Optimizer table_optimizer{.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.02F};
  Optimizer dense_optimizer{.kind = OptimizerKind::adam, .learning_rate = 1e-3F};

  /**
   * @param origin  what errors call the text (a file's name)
   * @throws std::invalid_argument with origin, key, what was found and what was expected
   */
  [[nodiscard]] static ModelDescription parse(std::string_view json, std::string_view origin);
  /** @throws std::invalid_argument as `parse`, and when the file can not be read */
  [[nodiscard]] static ModelDescription load(const std::filesystem::path& file);
  /** @brief One that ships: "adult", "criteo", "synthetic". @throws std::invalid_argument */
  [[nodiscard]] static ModelDescription named(std::string_view name);
  [[nodiscard]] static std::vector<std::string> names();

  /** @brief What `parse` reads, every key, two spaces of indentation. */
  [[nodiscard]] std::string to_json() const;

  /**
   * @brief The model of these data.
   * @throws std::invalid_argument that names a table or a feature that the data do not have, and
   *         those that they have
   */
  [[nodiscard]] SparseNNConfig config(const InputSchema& data, std::uint64_t seed) const;
  /** @brief The data's schema with the rows that the tables have here. */
  [[nodiscard]] InputSchema fitted(InputSchema data) const;
};

/** @brief "over_arch is [64], not [32]": the first key in which the second differs; "" if none. */
[[nodiscard]] std::string difference(const ModelDescription& one, const ModelDescription& other);

}  // namespace millrace
