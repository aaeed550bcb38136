#include "observe/replay/replay_warnings.hpp"

namespace millrace {

std::vector<std::string> warnings_of_blocks(const trace::AllocationLog& log, std::uint32_t device,
                                            ReplayManner manner) {
  std::size_t expandable = 0;
  std::size_t nowhere = 0;
  std::size_t in_pools = 0;
  for (const trace::LoggedBlock& block : log.blocks) {
    if (block.device != device) continue;
    if (block.expandable) ++expandable;
    if (!block.placed) ++nowhere;
    if (block.pool != trace::TorchPool{}) ++in_pools;
  }
  std::vector<std::string> warnings;
  if (manner.as_torch && !manner.expandable && expandable > 0) {
    warnings.push_back(std::to_string(expandable) +
                       " blocks of expandable segments are replayed in ordinary ones" +
                       (manner.compares ? ", and not compared" : ""));
  }
  if (manner.compares && nowhere > 0) {
    warnings.push_back(std::to_string(nowhere) +
                       " blocks that are in no known segment are replayed apart, and not "
                       "compared");
  }
  if (!manner.as_torch && in_pools > 0) {
    warnings.push_back(std::to_string(in_pools) +
                       " blocks of private pools (CUDA graphs, MemPool) are replayed as "
                       "if they were of the default one");
  }
  return warnings;
}

void RefusedRequests::add(const trace::LogEvent& event) {
  if (++count_ > 1) return;
  first_ = (has_lines_ ? "line " : "event ") + std::to_string(event.position) + ", " +
           std::to_string(event.bytes) + " bytes";
}

void RefusedRequests::warn(std::vector<std::string>& warnings) const {
  if (count_ == 0) return;
  const std::string times = std::to_string(count_) + (count_ == 1 ? " time" : " times");
  warnings.push_back((of_torch_ ? "PyTorch ran out of memory " : "the recorded allocator failed ") +
                     times + (count_ == 1 ? " (" : " (first: ") + first_ +
                     "): the figures are without what failed");
}

}  // namespace millrace
