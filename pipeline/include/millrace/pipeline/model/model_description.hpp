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

/** @brief The settings in which one table differs from the others. */
struct TableDescription {
  std::optional<std::size_t> rows;  ///< replaces the number of rows from the data
  std::optional<std::size_t> width;
  std::optional<Pooling> pooling;
};

/**
 * @brief A SparseNN without its features and numbers of rows, which come from the data.
 *
 * docs/train.md describes the keys of the JSON form, `millrace.model/1`.
 */
struct ModelDescription {
  std::size_t width = 16;  ///< width of every table
  Pooling pooling = Pooling::sum;
  std::map<std::string, TableDescription> tables;  ///< by name; only tables that differ
  /// By feature: the number of positions in a bag that have their own weight.
  std::map<std::string, std::size_t> position_weights;
  std::vector<std::size_t> dense_arch{64, 16};
  std::vector<std::size_t> over_arch{64};
  Interaction interaction = Interaction::dot;
  Optimizer table_optimizer{.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.02F};
  Optimizer dense_optimizer{.kind = OptimizerKind::adam, .learning_rate = 1e-3F};

  /**
   * @brief Parses a description.
   * @param origin  name of the text in errors (for instance a file name)
   * @throws std::invalid_argument with the origin, the key, the value found and the one expected
   */
  [[nodiscard]] static ModelDescription parse(std::string_view json, std::string_view origin);
  /** @brief Reads a file. @throws std::invalid_argument like `parse`, or if it cannot be read */
  [[nodiscard]] static ModelDescription load(const std::filesystem::path& file);
  /** @brief A built-in model: "adult", "criteo", "synthetic". @throws std::invalid_argument */
  [[nodiscard]] static ModelDescription named(std::string_view name);
  /** @brief Names of the built-in models. */
  [[nodiscard]] static std::vector<std::string> names();

  /** @brief The description in the format of `parse`: all keys, indented by two spaces. */
  [[nodiscard]] std::string to_json() const;

  /**
   * @brief The configuration of the model for these data.
   * @throws std::invalid_argument that names a table or a feature that the data does not have, and
   *         lists those that it has
   */
  [[nodiscard]] SparseNNConfig config(const InputSchema& data, std::uint64_t seed) const;
  /** @brief The data's schema with the numbers of rows of this description. */
  [[nodiscard]] InputSchema fitted(InputSchema data) const;
};

/**
 * @brief Returns the first key in which two models differ, for instance "over_arch is [64], not
 * [32]"; "" if they are equal.
 */
[[nodiscard]] std::string difference(const ModelDescription& one, const ModelDescription& other);

}  // namespace millrace
