#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "memory/page_map.hpp"
#include "millrace/interop/torch_records.hpp"

namespace millrace::torch {

/** @brief The data of a live block that its free needs. */
struct Live {
  std::size_t bytes = 0, requested = 0;
  CUstream_st* stream = nullptr;
  bool stream_stays =
      false;  ///< whether the stream's handle stays valid, so that a call may use it
  bool small = false;
  TorchPoolId pool;
  std::shared_ptr<void> owner;  ///< keeps the pool
  std::shared_ptr<void> context;
};

/**
 * @brief The live blocks of one GPU, by their first address and by their end.
 *
 * Blocks are not empty and do not overlap. So the memory before a block is free if no block ends at
 * its first address, and the memory after it is free if no block begins at its end; no sorted
 * container is necessary. Not thread-safe.
 */
class LiveBlocks {
 public:
  struct Block {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    Live* live = nullptr;
  };

  /** @brief Adds a block at an address that has none. */
  const Block& add(void* address, Live live);
  /** @brief Takes a block out. */
  Live remove(Block& block);

  /** @brief The block at `address`, or nullptr. */
  [[nodiscard]] Block* find(const void* address) { return begins_.find(address); }
  [[nodiscard]] const Block* find(const void* address) const { return begins_.find(address); }
  [[nodiscard]] bool any_begins(const void* address) const { return find(address) != nullptr; }
  [[nodiscard]] bool any_ends(const void* address) const { return ends_.find(address) != nullptr; }

  /** @brief Calls `each` with the blocks that begin in these addresses, in their order. */
  template <typename Each>
  void visit(const std::byte* begin, const std::byte* end, const Each& each) const {
    begins_.visit(begin, end, [&](const Block& block) { each(block); });
  }

 private:
  void make_block();

  PageMap<Block, &Block::begin> begins_;
  PageMap<Block, &Block::end> ends_;
  // All blocks that were ever made. A block is also read on behalf of its neighbors, so blocks are
  // stored apart from their other data: 10,000 blocks then fit into a core's cache.
  std::deque<Block> blocks_;
  std::deque<Live> lives_;
  std::vector<Block*> spare_;  // those of `blocks_` that are not in use
};

}  // namespace millrace::torch
