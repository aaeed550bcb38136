#include "workload/workload_source.hpp"

#include <algorithm>
#include <vector>

namespace millrace::experiment {
namespace {

constexpr std::size_t kBatchesOnTheirWay = 4;  // batches that are drawn or being copied

}  // namespace

void warm_pinned_memory(Allocator& pinned, std::span<const InputShape> batches, StreamRef copy) {
  std::vector<std::size_t> largest(batches.front().tensor_bytes().size());
  for (const InputShape& batch : batches) {
    const std::vector<std::size_t> sizes = batch.tensor_bytes();
    for (std::size_t i = 0; i < sizes.size(); ++i) largest[i] = std::max(largest[i], sizes[i]);
  }
  std::vector<HostBatch> held;
  for (std::size_t i = 0; i < kBatchesOnTheirWay; ++i) held.emplace_back(pinned, largest, copy);
}

}  // namespace millrace::experiment
