#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::model {

/** @brief The lookups of a batch in one table. */
struct TableLookups {
  double rows = 0;       ///< rows of the table
  double row_bytes = 0;  ///< weights and state of a row
  double lookups = 0;
};

/**
 * @brief The expected numbers of a batch's rows in the cache, for cost models.
 *
 * The host does not know the ids, so this follows from sizes alone. It assumes uniform ids, and a
 * cache that is full of rows of earlier batches.
 *
 * n lookups in a table of R rows reach U = R (1 - (1 - 1/R)^n) different rows. With S slots for the
 * rows of all tables, a row is cached with probability c = min(1, S / rows). Of the other rows, the
 * share p = min(1, (S - c U) / ((1 - c) U)) gets a slot, where U is the sum over all tables.
 */
class ExpectedRows {
 public:
  ExpectedRows(std::span<const TableLookups> tables, double slots);

  [[nodiscard]] double unique() const noexcept { return unique_; }  ///< U
  [[nodiscard]] std::span<const double> of_tables() const noexcept { return of_tables_; }
  /** Bytes of the U rows. */
  [[nodiscard]] double unique_bytes() const noexcept { return unique_bytes_; }
  /** @brief Returns the bytes that are fetched into the cache: p (1 - c) of `unique_bytes`. */
  [[nodiscard]] double loaded_bytes() const noexcept { return loaded_bytes_; }
  /**
   * @brief Returns the share of rows, and of lookups, that stays in host memory: (1 - p) (1 - c).
   */
  [[nodiscard]] double unplaced_share() const noexcept { return unplaced_share_; }

 private:
  std::vector<double> of_tables_;  ///< U of each table
  double unique_ = 0, unique_bytes_ = 0, loaded_bytes_ = 0, unplaced_share_ = 0;
};

}  // namespace millrace::model
