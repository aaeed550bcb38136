#include "model/expected_rows.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::model {

ExpectedRows::ExpectedRows(std::span<const TableLookups> tables, double slots) {
  double rows = 0;
  for (const TableLookups& table : tables) {
    // This is R (1 - (1 - 1/R)^n) without the loss of digits for large R.
    const double of_table = table.rows * -std::expm1(table.lookups * std::log1p(-1 / table.rows));
    const double different = table.rows > 1 ? of_table : std::min(1.0, table.lookups);
    of_tables_.push_back(different);
    rows += table.rows;
    unique_ += different;
    unique_bytes_ += different * table.row_bytes;
  }
  // Assumes uniform ids: each row is in the cache with the same probability.
  const double there = rows > 0 ? std::min(1.0, slots / rows) : 1;
  const double missing = (1 - there) * unique_;
  const double placed =
      missing > 0 ? std::clamp((slots - there * unique_) / missing, 0.0, 1.0) : 1.0;
  loaded_bytes_ = placed * (1 - there) * unique_bytes_;
  unplaced_share_ = (1 - placed) * (1 - there);
}

}  // namespace millrace::model
