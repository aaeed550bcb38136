#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "memory/size_index.hpp"
#include "memory/wait_queue.hpp"
#include "millrace/memory/statistics.hpp"

namespace millrace {

/** @brief The free blocks of a lane in one of the two pools. */
struct Shelf {
  SizeIndex<&Block::by_size> ready;     // Waits::nothing and for_others
  SizeIndex<&Block::by_size> draining;  // Waits::for_all

  [[nodiscard]] std::size_t bytes() const noexcept { return ready.bytes() + draining.bytes(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return ready.size() + draining.size(); }
};

/** @brief What a stream needs at once, as seen so far. */
struct Demand {
  Gauge live;
  Marker marker = 0;  // the burst is before it
  std::size_t burst = 0;
  std::size_t largest_burst = 0;
  std::uint64_t began = 0;           // the newest marker when the burst began, as a serial
  std::uint64_t previous_began = 0;  // when the burst before it did
};

/**
 * @brief Blocks that came back as they were given out, and wait for the next request of that size:
 *        not merged with their neighbours, and not looked for by anybody else.
 *
 * They are put where all can see them before a request looks further than here.
 */
class QuickBins {
 public:
  static constexpr std::size_t kBins = 32;

  struct Bin {
    std::size_t bytes = 0;   // of the requests
    Block* first = nullptr;  // linked by `queue_next`
  };

  [[nodiscard]] bool empty() const noexcept { return blocks_ == 0; }
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] Bin& bin(std::size_t bytes) {
    if (bins_ == nullptr) bins_ = std::make_unique<std::array<Bin, kBins>>();
    return (*bins_)[bytes * 0x9e3779b97f4a7c15 >> (64 - std::bit_width(kBins - 1))];
  }
  void push(Bin& bin, Block* block) noexcept {
    block->queue_next = bin.first;
    bin.first = block;
    ++blocks_;
  }
  [[nodiscard]] Block* pop(Bin& bin) noexcept {
    Block* const block = bin.first;
    if (block == nullptr) return nullptr;
    bin.first = block->queue_next;
    --blocks_;
    return block;
  }
  [[nodiscard]] Block* pop(std::size_t bytes) noexcept {
    if (blocks_ == 0) return nullptr;
    Bin& found = bin(bytes);
    return found.bytes == bytes ? pop(found) : nullptr;
  }
  template <typename Visit>
  void empty_into(Visit&& visit) {
    for (std::size_t i = 0; blocks_ > 0 && i < kBins; ++i) {
      while (Block* const block = pop((*bins_)[i])) visit(block);
    }
  }

  std::size_t place = 0;  ///< among the lanes that have some

 private:
  std::unique_ptr<std::array<Bin, kBins>> bins_;
  std::size_t blocks_ = 0;
};

/** @brief What is kept for one stream; one more is nobody's, which was never used. */
struct Lane {
  explicit Lane(StreamId id) : stream(id) {}

  StreamId stream;
  std::array<Shelf, 2> shelves;  // of large and of small segments
  Demand demand;
  /** Of its blocks that wait for its own stream only; once there were any. */
  std::unique_ptr<WaitQueue> own;
  /** Of those that wait for another one, or in another way. None is empty. */
  std::map<std::pair<StreamId, Waits>, std::unique_ptr<WaitQueue>> queues;
  QuickBins quick;
  std::uint64_t visited = 0;

  [[nodiscard]] Shelf& shelf(bool small) noexcept { return shelves[small ? 1 : 0]; }
  [[nodiscard]] std::size_t blocks() const noexcept {
    return shelves[0].blocks() + shelves[1].blocks();
  }
};

}  // namespace millrace
