#include "pipelines/raced.hpp"

#include <algorithm>

namespace millrace::cli {

bool raced(const std::vector<PipelineRow>& rows) {
  return std::ranges::any_of(rows, [](const PipelineRow& row) { return !row.races.empty(); });
}

}  // namespace millrace::cli
