#include "cli/spread.hpp"

#include <algorithm>

#include "cli/figures.hpp"

namespace millrace::cli {

Spread spread_of(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {.median = median(values),
          .least = least,
          .most = most,
          .low = percentile(values, 0.25),
          .high = percentile(values, 0.75)};
}

nlohmann::ordered_json to_json(const Spread& spread, double scale) {
  return {{"median", spread.median * scale},
          {"least", spread.least * scale},
          {"most", spread.most * scale},
          {"p25", spread.low * scale},
          {"p75", spread.high * scale}};
}

}  // namespace millrace::cli
