#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "millrace/experiment/training_loop.hpp"

namespace millrace::test {

/// A small training loop with real data on a virtual device, and the edge that it leaves out.
struct LoopCase {
  CopyMethod method = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  PipelineKind shape = PipelineKind::sparse_dist;
  std::size_t ranks = 2;  ///< this is one of them; with others the host waits for sizes
  std::string allocator = "millrace";
  std::string left_out;        ///< one of LoopOutcome::edges; empty: none
  std::uint64_t schedule = 0;  ///< 0: timed; otherwise the seed of an adversarial schedule
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::function<void(experiment::Workload&)> change{};  ///< changes the workload, not its batches

  [[nodiscard]] std::string name() const;
};

struct LoopOutcome {
  std::set<std::string> edges;     ///< all edges of this loop, including the left-out one
  std::size_t checked = 0;         ///< ranges that kernels read
  std::size_t corrupted = 0;       ///< ranges with wrong contents
  std::vector<std::string> races;  ///< reported by the checker
  experiment::LoopReport report;
};

[[nodiscard]] LoopOutcome run(const LoopCase& loop);

/// Batches of a few KB, with 3 + 2 features.
[[nodiscard]] experiment::Workload small_workload(PipelineKind shape);

}  // namespace millrace::test
