#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace millrace::model {

/** @brief Lookups of a batch in one table. */
struct TableLookups {
  double rows = 0;       ///< of the table
  double row_bytes = 0;  ///< weights and state
  double lookups = 0;
};

/**
 * @brief What a batch is expected to find of cached tables, from sizes alone: the host does not
 *        know ids. As if they were uniform, and the cache full of rows of earlier batches.
 *
 * n lookups in R rows are of U = R (1 - (1 - 1/R)^n) different rows. With S slots for all rows
 * together a row is there with probability c = min(1, S / rows). Of the others the share p finds a
 * slot: p = min(1, (S - c U) / ((1 - c) U)), U of all tables.
 */
class ExpectedRows {
 public:
  ExpectedRows(std::span<const TableLookups> tables, double slots);

  [[nodiscard]] double unique() const noexcept { return unique_; }  ///< U
  [[nodiscard]] std::span<const double> of_tables() const noexcept { return of_tables_; }
  [[nodiscard]] double unique_bytes() const noexcept { return unique_bytes_; }  ///< of all these
  [[nodiscard]] double loaded_bytes() const noexcept { return loaded_bytes_; }  ///< p (1 - c) of it
  /** @brief (1 - p) (1 - c): of rows, and of lookups. */
  [[nodiscard]] double unplaced_share() const noexcept { return unplaced_share_; }

 private:
  std::vector<double> of_tables_;  ///< U of each
  double unique_ = 0, unique_bytes_ = 0, loaded_bytes_ = 0, unplaced_share_ = 0;
};

}  // namespace millrace::model
