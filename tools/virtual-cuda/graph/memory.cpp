#include "graph/memory.hpp"

#include <algorithm>

#include "millrace/round_up.hpp"

namespace millrace::virtual_cuda {

void* GraphMemory::take(unsigned gpu, std::size_t bytes) {
  void* address = memory_.take(gpu, bytes);
  if (address == nullptr) {
    trim(gpu);
    address = memory_.take(gpu, bytes);
  }
  if (address == nullptr) return nullptr;
  Block block;
  block.gpu = gpu;
  block.bytes = round_up(bytes, Memory::kAlignment);
  Amount& amount = amounts_[gpu];
  amount.current += block.bytes;
  amount.high = std::max(amount.high, amount.current);
  blocks_.insert_or_assign(address, block);
  return address;
}

bool GraphMemory::allocated(const void* address) const {
  const auto block = blocks_.find(address);
  return block != blocks_.end() && block->second.allocated;
}

void GraphMemory::allocate(void* address) {
  if (const auto block = blocks_.find(address); block != blocks_.end())
    block->second.allocated = true;
}

bool GraphMemory::release(void* address, const OperationRef& after) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end() || !block->second.allocated) return false;
  block->second.allocated = false;
  block->second.after = after;
  return true;
}

void GraphMemory::abandon(void* address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  block->second.of_a_graph = false;
  if (unused(block->second)) give(block);
}

void GraphMemory::trim(unsigned gpu) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto found = block++;
    if (found->second.gpu == gpu && unused(found->second)) give(found);
  }
}

bool GraphMemory::unused(const Block& block) {
  return !block.of_a_graph && !block.allocated && (!block.after || block.after->done());
}

void GraphMemory::give(std::map<const void*, Block>::iterator block) {
  amounts_[block->second.gpu].current -= block->second.bytes;
  memory_.give(const_cast<void*>(block->first));
  blocks_.erase(block);
}

}  // namespace millrace::virtual_cuda
