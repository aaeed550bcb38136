#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>

#include "memory/block.hpp"
#include "memory/page_map.hpp"

namespace millrace {

/**
 * @brief Segments, their blocks and the lanes of free ones. Decides nothing, locks nothing.
 *
 * A block is in exactly one place: in its lane while free, in the page map while live, in neither
 * while claimed, pending or absent.
 */
class Heap {
 public:
  using Lanes = std::unordered_map<StreamId, FreeSet>;

  Heap() = default;
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /** @brief Adds a segment as one claimed block. */
  Block* add_segment(void* base, std::size_t bytes, bool small);

  /** @brief Adds a growable range, as a segment with no block yet. */
  Segment& add_range(void* base, std::size_t addresses, StreamId home);
  /** @brief A claimed block of `bytes` in the place of `hole`'s first ones, or at the end. */
  Block* fill(Segment& range, Block* hole, std::size_t bytes);
  /** @brief The claimed block has no memory any more: a hole, or none if it was the last one. */
  void vacate(Block* block);

  /** @brief Takes out a segment that is one claimed block; then `insert` or `forget` it. */
  [[nodiscard]] std::unique_ptr<Segment> extract(Segment* segment);
  void insert(std::unique_ptr<Segment> segment);
  void forget(std::unique_ptr<Segment> segment);

  /** @brief Keeps `bytes` in `block`; the rest becomes a claimed block behind it, returned. */
  Block* split(Block* block, std::size_t bytes);

  /** @brief Takes `right`, the claimed block behind `left`, into it. The caller sees to points. */
  void absorb(Block* left, Block* right);

  void put(Block* block);    ///< claimed -> free, into its lane
  void claim(Block* block);  ///< free -> claimed

  [[nodiscard]] Lanes& lanes(bool small) noexcept { return lanes_[small ? 1 : 0]; }
  [[nodiscard]] const Lanes& lanes(bool small) const noexcept { return lanes_[small ? 1 : 0]; }
  [[nodiscard]] FreeSet* lane(bool small, StreamId stream) noexcept;

  /** @brief In address order. */
  [[nodiscard]] auto& segments() noexcept { return segments_; }
  [[nodiscard]] const auto& segments() const noexcept { return segments_; }
  /** @brief The growable ones of them, as they were added. */
  [[nodiscard]] const std::vector<Segment*>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] PageMap& live() noexcept { return live_; }
  [[nodiscard]] const PageMap& live() const noexcept { return live_; }

  [[nodiscard]] std::size_t free_blocks() const noexcept;

  /** @throws std::logic_error naming the first thing that is not as it has to be */
  void check() const;

 private:
  Block* make();
  Block* make(Segment& segment, std::byte* address, std::size_t bytes);

  std::array<Lanes, 2> lanes_;
  std::map<std::byte*, std::unique_ptr<Segment>> segments_;
  std::vector<Segment*> ranges_;
  PageMap live_;
  std::vector<std::unique_ptr<Block>> spare_;
};

/** @brief Pointwise maximum of two sets of points, sorted. */
void join_points(std::vector<Point>& into, const std::vector<Point>& other);

}  // namespace millrace
