#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace millrace::cli {

/** @brief One figure over the seeds. */
struct Spread {
  double median = 0;  ///< as `median` has it: of an even number the lower one
  double least = 0, most = 0;
  double low = 0, high = 0;  ///< quartiles, by linear interpolation
};

/** @param values  one for each seed, at least one */
[[nodiscard]] Spread spread_of(const std::vector<double>& values);

/** @brief {"median", "least", "most", "p25", "p75"}, each times `scale`. */
[[nodiscard]] nlohmann::ordered_json to_json(const Spread& spread, double scale = 1);

}  // namespace millrace::cli
