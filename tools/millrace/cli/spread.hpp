#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace millrace::cli {

/** @brief How one figure varies between the seeds. */
struct Spread {
  double median = 0;  ///< by the function `median`: never a mean
  double least = 0, most = 0;
  double low = 0, high = 0;  ///< quartiles, by linear interpolation
};

/** @param values  one for each seed, at least one */
[[nodiscard]] Spread spread_of(const std::vector<double>& values);

/** @brief An object with the keys median, least, most, p25 and p75, each value times `scale`. */
[[nodiscard]] nlohmann::ordered_json to_json(const Spread& spread, double scale = 1);

}  // namespace millrace::cli
