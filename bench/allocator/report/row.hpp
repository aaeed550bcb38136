#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "allocator/cases/case.hpp"

namespace millrace::bench {

/// One case on one subject: what its repetitions found.
struct ResultRow {
  const Case* of = nullptr;
  std::string subject;
  std::vector<Measured> repetitions;
};

/// Medians over the repetitions; what no repetition found is null.
[[nodiscard]] nlohmann::ordered_json json_of(const ResultRow& row);

/// Median nanoseconds of CPU of a pair, if any repetition measured one.
[[nodiscard]] std::optional<double> ns_per_pair(const ResultRow& row);

/// Why the case was given up, or "".
[[nodiscard]] std::string given_up(const ResultRow& row);

}  // namespace millrace::bench
