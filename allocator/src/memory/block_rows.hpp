#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief Host memory for blocks. A block stays where it is, and is never given back.
 *
 * Blocks are allocated in rows. Each row is twice as long as the one before it, within limits: a
 * small heap takes little memory, and a large one allocates 56 KiB at a time. In the short rows,
 * each block has two cache lines of its own: where there are few blocks, each thread may use one of
 * them all the time. In the long rows, four blocks share seven lines.
 */
class BlockRows {
 public:
  /** @brief Returns a block that was not returned before. */
  [[nodiscard]] Block* take() {
    if (used_ == in_last_) add_row();
    const std::size_t at = used_++;
    if (packed_.empty()) return &spread_.back()[at].block;
    return &packed_.back()[at / kInQuad].blocks[at % kInQuad];
  }

 private:
  static constexpr std::size_t kFewest = 16, kMost = 512, kInQuad = 4;

  struct alignas(64) Lone {
    Block block;
  };
  struct alignas(64) Quad {
    std::array<Block, kInQuad> blocks;
  };
  static_assert(sizeof(Lone) == 128 && sizeof(Quad) == 7 * 64);

  void add_row() {
    const std::size_t count = std::clamp(in_last_ * 2, kFewest, kMost);
    if (count < kMost) {
      spread_.push_back(std::make_unique<Lone[]>(count));
    } else {
      packed_.push_back(std::make_unique<Quad[]>(count / kInQuad));
    }
    in_last_ = count;
    used_ = 0;
  }

  std::vector<std::unique_ptr<Lone[]>> spread_;
  std::vector<std::unique_ptr<Quad[]>> packed_;  // the rows after those
  std::size_t in_last_ = 0, used_ = 0;           // blocks in the last row, and those in use
};

}  // namespace millrace
