#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/text.hpp"
#include "millrace/experiment/capture_comparison.hpp"

namespace millrace::cli {

/** @brief One way of capture, compared with the same loop without a capture. */
struct BenchRow {
  std::size_t rows = 0;
  std::string way;
  experiment::CaptureRun run;
  Nanoseconds stall{0};  ///< added time of a step on the device
};

/** @brief All ways of capture, at one number of changed rows per step. */
struct BenchSize {
  std::size_t rows = 0, bytes = 0;
  experiment::CaptureReference reference;
  experiment::CaptureRun without;
  std::vector<BenchRow> ways;
};

/** @param wide  show all columns */
[[nodiscard]] std::string render(const BenchSize& size, bool wide, const Painter& paint);
/** @brief The advice of the first screen: the time of a loop without a capture, and the ways that
 *         cost the least time and the least memory. "" if no way captured rows. */
[[nodiscard]] std::string bench_advice(const BenchSize& size, const Painter& paint);
/** @brief Explains the columns. */
[[nodiscard]] std::string bench_legend(bool wide);
[[nodiscard]] nlohmann::ordered_json to_document(const BenchSize& size);

}  // namespace millrace::cli
