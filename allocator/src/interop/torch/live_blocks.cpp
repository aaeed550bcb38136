#include "interop/torch/live_blocks.hpp"

#include <utility>

namespace millrace::torch {

void LiveBlocks::make_block() {
  // Room for all of them, so that returning a block to `spare_` allocates nothing.
  if (spare_.capacity() == blocks_.size()) spare_.reserve(2 * blocks_.size() + 64);
  Live& live = lives_.emplace_back();
  spare_.push_back(&blocks_.emplace_back(nullptr, nullptr, &live));
}

const LiveBlocks::Block& LiveBlocks::add(void* address, Live live) {
  if (spare_.empty()) make_block();
  Block& block = *spare_.back();
  block.begin = static_cast<std::byte*>(address);
  block.end = block.begin + live.bytes;
  begins_.insert(&block);
  try {
    ends_.insert(&block);
  } catch (...) {
    begins_.erase(&block);
    throw;
  }
  spare_.pop_back();
  *block.live = std::move(live);
  return block;
}

Live LiveBlocks::remove(Block& block) {
  begins_.erase(&block);
  ends_.erase(&block);
  spare_.push_back(&block);
  return std::exchange(*block.live, Live{});
}

}  // namespace millrace::torch
