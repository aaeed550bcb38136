#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "allocator/cases/case.hpp"

namespace millrace::bench {

/// The results of one case on one subject, for all repetitions.
struct ResultRow {
  const Case* of = nullptr;
  std::string subject;
  std::vector<Measured> repetitions;
};

/// Medians over the repetitions. A figure that no repetition found is null.
[[nodiscard]] nlohmann::ordered_json json_of(const ResultRow& row);

/// Median CPU nanoseconds per pair; std::nullopt if no repetition measured a pair.
[[nodiscard]] std::optional<double> ns_per_pair(const ResultRow& row);

/// Why the case was given up; "" if it was not.
[[nodiscard]] std::string given_up(const ResultRow& row);

}  // namespace millrace::bench
