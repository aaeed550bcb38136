#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "millrace/experiment/training_loop.hpp"

namespace millrace::test {

/// A small training loop with real data on a virtual device, and what is left out of it.
struct LoopCase {
  CopyMethod method = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  PipelineKind shape = PipelineKind::sparse_dist;
  std::size_t ranks = 2;  ///< of which this is one; with others the host waits for sizes
  std::string allocator = "millrace";
  std::string left_out;        ///< one of LoopOutcome::edges
  std::uint64_t schedule = 0;  ///< 0: timed, else the seed of an adversarial one
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::function<void(experiment::Workload&)> change{};  ///< of the workload, but not of its batches

  [[nodiscard]] std::string name() const;
};

struct LoopOutcome {
  std::set<std::string> edges;     ///< all that orders this loop, what was left out included
  std::size_t checked = 0;         ///< ranges that kernels read
  std::size_t corrupted = 0;       ///< that did not hold what was meant
  std::vector<std::string> races;  ///< what the checker says
  experiment::LoopReport report;
};

[[nodiscard]] LoopOutcome run(const LoopCase& loop);

/// A few KB a batch, in 3 + 2 features.
[[nodiscard]] experiment::Workload small_workload(PipelineKind shape);

}  // namespace millrace::test
