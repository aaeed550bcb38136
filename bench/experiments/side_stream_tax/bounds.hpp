#pragma once

#include <string>
#include <vector>

#include "sweep.hpp"

namespace millrace::side_stream_tax {

/** @brief The result of one bound over all its settings. */
struct Verdict {
  std::string bound;
  std::size_t settings = 0;
  double least_margin = 0;  ///< in the bound's unit; negative if the bound is broken
  std::string unit;
  std::string where;                ///< the setting with the least margin
  std::vector<std::string> broken;  ///< one line per setting that breaks the bound
};

/**
 * @brief Compares the sweep with Millrace's promises.
 *
 * SparseDist: `side-stream` on `millrace` reserves no more than `in-place` on `torch`, and steps
 * take at most 1% longer than with `side-stream` on `torch`. `precise` on `millrace` reserves no
 * more than `in-place` on `torch`, and hides as much as `side-stream` on `torch`, within 0.01.
 * Base: both reserve at most one batch more than `in-place` on `torch`, and hide as much as
 * `side-stream` on `torch`, within 0.01.
 * Reserved bytes are the median over the seeds. Steps and hidden shares are the mean.
 */
[[nodiscard]] std::vector<Verdict> hold_to_bounds(const std::vector<Cell>& cells);

}  // namespace millrace::side_stream_tax
