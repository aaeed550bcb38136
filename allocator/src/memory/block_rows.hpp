#pragma once

#include <array>
#include <cstddef>

#include "memory/block.hpp"
#include "memory/rows.hpp"

namespace millrace {

/**
 * @brief Host memory for blocks. A block stays where it is, and is never given back.
 *
 * Each of the first blocks has two cache lines of its own: where there are few blocks, each thread
 * may use one of them all the time. Of the others, four share seven lines.
 */
class BlockRows {
 public:
  /** @brief Returns a block that was not returned before. */
  [[nodiscard]] Block* take() {
    if (lone_.taken() < kMostLone) return &lone_.take()->block;
    if (used_of_last_ == kInQuad) {
      last_ = quads_.take();
      used_of_last_ = 0;
    }
    return &last_->blocks[used_of_last_++];
  }

 private:
  static constexpr std::size_t kInQuad = 4;
  static constexpr std::size_t kMostLone = 16 + 32 + 64 + 128 + 256;  // full rows

  struct alignas(64) Lone {
    Block block;
  };
  struct alignas(64) Quad {
    std::array<Block, kInQuad> blocks;
  };
  static_assert(sizeof(Lone) == 128 && sizeof(Quad) == 7 * 64);

  Rows<Lone, 16, 256> lone_;
  Rows<Quad, 128, 128> quads_;  // 56 KiB at a time
  Quad* last_ = nullptr;
  std::size_t used_of_last_ = kInQuad;
};

}  // namespace millrace
