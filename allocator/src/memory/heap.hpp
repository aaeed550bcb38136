#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "memory/block.hpp"
#include "memory/page_map.hpp"
#include "memory/size_index.hpp"

namespace millrace {

/** @brief The live blocks by their address. */
using BlockMap = PageMap<Block, &Block::address>;

/**
 * @brief Segments and the blocks that tile them. Decides nothing, locks nothing.
 *
 * What is live is in the page map. Where free blocks are found is not known here.
 */
class Heap {
 public:
  /** @param numbered  segments are ordered by when they came, not by where they lie */
  explicit Heap(bool numbered = false) : numbered_(numbered) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /** @brief Adds a segment as one claimed block. */
  Block* add_segment(void* base, std::size_t bytes, bool small);

  /** @brief Adds a growable range, as a segment with no block yet. */
  Segment& add_range(void* base, std::size_t addresses, StreamId home, std::size_t page,
                     bool small = false);
  /** @brief Takes out a range without blocks. Its object serves a later range, as calls that have
   * dropped the lock may know it. */
  void remove_range(Segment& range);
  /** @brief A claimed block of `bytes` in the place of `hole`'s first ones, or at the end. */
  Block* fill(Segment& range, Block* hole, std::size_t bytes);
  /** @brief The claimed block has no memory any more: a hole, or none if it was the last one. */
  void vacate(Block* block);

  /** @brief Takes out a segment that is one claimed block; then `insert` or `forget` it. */
  [[nodiscard]] std::unique_ptr<Segment> extract(Segment* segment);
  void insert(std::unique_ptr<Segment> segment);
  void forget(std::unique_ptr<Segment> segment);

  /** @brief Keeps `bytes` in `block`; the rest becomes a claimed block after it, returned. */
  Block* split(Block* block, std::size_t bytes);

  /** @brief What is known of an allocation that more than its owner uses. */
  [[nodiscard]] Company* make_company();
  void forget(Company* company);

  /** @brief Takes `right`, the claimed block after `left`, into it. The caller merges the points.
   */
  void absorb(Block* left, Block* right);

  /** @brief In address order. */
  [[nodiscard]] auto& segments() noexcept { return segments_; }
  [[nodiscard]] const auto& segments() const noexcept { return segments_; }
  /** @brief The growable ones of them, as they were added. */
  [[nodiscard]] const std::vector<Segment*>& ranges() const noexcept { return ranges_; }
  /** @brief Bytes of the segments of the small pool. */
  [[nodiscard]] std::size_t small_bytes() const noexcept { return small_bytes_; }
  /** @brief Addresses in ranges, between blocks, that have no memory. */
  [[nodiscard]] const auto& holes() const noexcept { return holes_; }
  [[nodiscard]] BlockMap& live() noexcept { return live_; }
  [[nodiscard]] const BlockMap& live() const noexcept { return live_; }

  /** @throws std::logic_error naming the first thing that is not as it has to be */
  void check() const;

 private:
  Block* make();
  Block* take_block();
  void put_by(Block* block) noexcept;
  Block* make(Segment& segment, std::byte* address, std::size_t bytes);

  std::map<std::byte*, std::unique_ptr<Segment>> segments_;
  const bool numbered_;
  std::size_t newest_number_ = 0;
  std::size_t small_bytes_ = 0;
  std::vector<Segment*> ranges_;
  std::vector<std::unique_ptr<Segment>> spare_ranges_;
  SizeIndex<&WhileFree::by_size> holes_;
  BlockMap live_;
  std::vector<std::unique_ptr<Block[]>> blocks_;  // all that were ever made
  std::size_t in_last_ = 0, used_of_last_ = 0;    // of the last of these
  Block* spare_ = nullptr;                        // not in use; linked by `next`
  std::deque<Company> companies_;
  Company* spare_company_ = nullptr;  // not in use; linked by `next_spare`
};

}  // namespace millrace
