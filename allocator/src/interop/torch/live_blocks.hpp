#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "memory/page_map.hpp"
#include "millrace/interop/torch_records.hpp"

namespace millrace::torch {

/** @brief What a free has to know of a block. */
struct Live {
  std::size_t bytes = 0, requested = 0;
  CUstream_st* stream = nullptr;
  bool stream_stays = false;  ///< the stream's handle may be named at any time
  bool small = false;
  TorchPoolId pool;
  std::shared_ptr<void> owner;  ///< keeps the pool
  std::shared_ptr<void> context;
};

/**
 * @brief The live blocks of one GPU, by where they begin and by where they end.
 *
 * Blocks are not empty and do not overlap, so whether memory beside a block is free needs no order:
 * it is if no block ends there, or begins there. Not thread-safe.
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
  // All that were ever made. Blocks are looked at by their neighbors, too, and so kept apart from
  // what is known of them: 10,000 blocks then fit into a core's cache.
  std::deque<Block> blocks_;
  std::deque<Live> lives_;
  std::vector<Block*> spare_;  // of them those that are not in use
};

}  // namespace millrace::torch
