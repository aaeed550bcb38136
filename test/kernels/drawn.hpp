#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "model/lookup.hpp"

namespace millrace::test::kernels {

/// @file
/// Drawn inputs of embedding kernels: tables, bags of ids, numbers.

/** @brief The types of ids and offsets that a batch may have, as template tests take them. */
using IdsAndOffsets =
    std::tuple<std::pair<std::int32_t, std::int32_t>, std::pair<std::int32_t, std::int64_t>,
               std::pair<std::int64_t, std::int32_t>, std::pair<std::int64_t, std::int64_t>>;

/** @brief Features, some of which share a table. Some tables have no rows. */
struct DrawnTables {
  std::vector<model::Lookup> lookups;
  std::size_t rows = 0, scalars = 0;    ///< of all tables
  std::size_t columns = 0, widest = 0;  ///< of pooled rows; of a table
};
[[nodiscard]] DrawnTables draw_tables(std::mt19937_64& random, std::size_t features);

/** @brief Mostly few features, sometimes more than one byte can count. */
[[nodiscard]] DrawnTables draw_tables(std::mt19937_64& random);

/** @brief Some bags are empty, some are long. In each table one row is in many bags. */
template <typename Id, typename Offset>
struct DrawnBags {
  std::size_t batch = 0;
  std::vector<Id> ids;
  std::vector<Offset> offsets;
};
/** @param strays  whether some ids are outside of their table */
template <typename Id, typename Offset>
[[nodiscard]] DrawnBags<Id, Offset> draw_bags(std::mt19937_64& random, const DrawnTables& tables,
                                              bool strays);

/** @brief Small multiples of 1/8: sums of their products are exact in any order. */
[[nodiscard]] std::vector<float> draw_numbers(std::mt19937_64& random, std::size_t count);

/** @brief A slot below `slots`, or none, for each of `count` rows. */
[[nodiscard]] std::vector<std::int32_t> draw_slots(std::mt19937_64& random, std::size_t count,
                                                   std::size_t slots);

/** @brief The largest difference, relative to the expected value plus 0.01. */
[[nodiscard]] double worst_difference(const std::vector<float>& found,
                                      const std::vector<float>& expected);

}  // namespace millrace::test::kernels
