#pragma once

#include <string>
#include <vector>

#include "sweep.hpp"

namespace millrace::side_stream_tax {

/** @brief What a bound came to over all settings it is about. */
struct Verdict {
  std::string bound;
  std::size_t settings = 0;
  double least_margin = 0;  ///< in the bound's unit; below 0: broken
  std::string unit;
  std::string where;                ///< the setting with that margin
  std::vector<std::string> broken;  ///< a line for each setting that breaks it
};

/**
 * @brief Holds the sweep against what Millrace promises.
 *
 * SparseDist: `side-stream` on `millrace` reserves no more than `in-place` on `torch`, and steps
 * take at most 1% longer than with `side-stream` on `torch`; `precise` on `millrace` reserves no
 * more than `in-place` on `torch`, and hides as much as `side-stream` on `torch`, within 0.01.
 * Base: both reserve at most a batch more than `in-place` on `torch`, and hide as much as
 * `side-stream` there, within 0.01.
 * Reserved is the median over the seeds, steps and what is hidden are the mean.
 */
[[nodiscard]] std::vector<Verdict> hold_to_bounds(const std::vector<Cell>& cells);

}  // namespace millrace::side_stream_tax
