#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "memory/block.hpp"
#include "memory/block_rows.hpp"
#include "memory/page_map.hpp"
#include "memory/size_index.hpp"

namespace millrace {

/** @brief Live and quick blocks by address; callers check the state. */
using BlockMap = PageMap<Block, &Block::address>;

/**
 * @brief Segments, the blocks that tile them, and a map from addresses to live blocks. Decides
 *        nothing, takes no lock.
 *
 * Shelves and Runs have the indexes of free blocks.
 */
class Heap {
 public:
  /** @param numbered  segments are ordered by acquisition instead of by address */
  explicit Heap(bool numbered = false) : numbered_(numbered) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /** @brief Adds a segment as one claimed block. */
  Block* add_segment(void* base, std::size_t bytes, bool small);

  /**
   * @brief Adds a growable range, as a segment without blocks.
   * @param addresses  bytes of addresses from `base` on
   * @param home       the stream whose requests grow the range
   * @param page       bytes of one page
   */
  Segment& add_range(void* base, std::size_t addresses, StreamId home, std::size_t page,
                     bool small = false);
  /** @brief Takes out a range without blocks. Keeps the object for a later range, because calls
   * that have dropped the lock may still refer to it. */
  void remove_range(Segment& range);
  /**
   * @brief Makes a block of `bytes` in the state `filling`, for memory that the caller maps.
   * @param hole  the block takes its first bytes; nullptr: the block comes after the last one
   */
  Block* fill(Segment& range, Block* hole, std::size_t bytes);
  /** @brief Turns a block whose memory is gone into a hole, or removes it if it is the last one.
   * The block is in no index. */
  void vacate(Block* block);

  /** @brief Takes out a segment that is one claimed block. Call `insert` or `forget` next. */
  [[nodiscard]] std::unique_ptr<Segment> extract(Segment* segment);
  void insert(std::unique_ptr<Segment> segment);
  void forget(std::unique_ptr<Segment> segment);

  /** @brief Keeps `bytes` in `block`. Returns the rest, a claimed block with the same points. */
  Block* split(Block* block, std::size_t bytes);

  /** @brief Returns an unused record for an allocation that other streams than its owner use. */
  [[nodiscard]] UseRecord* make_use_record();
  void forget(UseRecord* use_record);

  /** @brief Merges `right`, the block after `left`, into `left`. `right` is in no index. The caller
   * merges the points. */
  void absorb(Block* left, Block* right);

  /** @brief All segments, in address order. */
  [[nodiscard]] auto& segments() noexcept { return segments_; }
  [[nodiscard]] const auto& segments() const noexcept { return segments_; }
  /** @brief The growable ranges, in the order in which they were added. */
  [[nodiscard]] const std::vector<Segment*>& ranges() const noexcept { return ranges_; }
  /** @brief Bytes of the segments of the small pool. */
  [[nodiscard]] std::size_t small_bytes() const noexcept { return small_bytes_; }
  /** @brief The holes: addresses in ranges, before the last block, that have no memory. */
  [[nodiscard]] const auto& holes() const noexcept { return holes_; }
  [[nodiscard]] BlockMap& live() noexcept { return live_; }
  [[nodiscard]] const BlockMap& live() const noexcept { return live_; }

  /** @throws std::logic_error that names the first invariant found broken */
  void check() const;

 private:
  Block* make();
  void keep_spare(Block* block) noexcept;
  Block* make(Segment& segment, std::byte* address, std::size_t bytes);

  std::map<std::byte*, std::unique_ptr<Segment>> segments_;
  const bool numbered_;
  std::size_t newest_number_ = 0;
  std::size_t small_bytes_ = 0;
  std::vector<Segment*> ranges_;
  std::vector<std::unique_ptr<Segment>> spare_ranges_;
  SizeIndex<&WhileFree::by_size> holes_;
  BlockMap live_;
  BlockRows rows_;
  Block* spare_ = nullptr;  // unused blocks, linked by `next`
  std::deque<UseRecord> use_records_;
  UseRecord* spare_use_records_ = nullptr;  // unused records, linked by `next_spare`
};

}  // namespace millrace
