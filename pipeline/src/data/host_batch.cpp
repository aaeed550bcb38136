#include "millrace/pipeline/data/host_batch.hpp"

#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

HostBatch::HostBatch(Allocator& pinned, std::span<const std::size_t> sizes, StreamRef copy) {
  memory_.reserve(sizes.size());
  tensors_.reserve(sizes.size());
  for (const std::size_t bytes : sizes) {
    const Buffer& buffer = memory_.emplace_back(pinned, bytes, copy);
    tensors_.push_back({buffer.data(), bytes});
  }
}

std::size_t HostBatch::bytes() const noexcept {
  std::size_t sum = 0;
  for (const HostTensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

DeviceBatch HostBatch::to(CopyStrategy& strategy) const { return strategy.copy(tensors_); }

void HostBatch::release(Point copied) {
  for (Buffer& buffer : memory_) buffer.reset(copied);
  memory_.clear();
  tensors_.clear();
}

}  // namespace millrace
