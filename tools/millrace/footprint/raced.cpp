#include "footprint/raced.hpp"

#include <algorithm>

namespace millrace::cli {

bool raced(const std::vector<FootprintTable>& tables) {
  return std::ranges::any_of(tables, [](const FootprintTable& table) {
    return std::ranges::any_of(
        table.rows, [](const FootprintRow& row) { return row.races && !row.races->empty(); });
  });
}

}  // namespace millrace::cli
