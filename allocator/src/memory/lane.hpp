#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "memory/size_index.hpp"
#include "memory/wait_queue.hpp"

namespace millrace {

/** @brief The free blocks of a lane in one of the two pools. */
struct Shelf {
  SizeIndex<&WhileFree::by_size> ready;     // Waits::nothing and for_others
  SizeIndex<&WhileFree::by_size> draining;  // Waits::for_all

  [[nodiscard]] std::size_t bytes() const noexcept { return ready.bytes() + draining.bytes(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return ready.size() + draining.size(); }
};

/** @brief What is kept for one stream; one more is nobody's, which was never used. */
struct Lane {
  explicit Lane(StreamId id) : stream(id) {}

  StreamId stream;
  std::array<Shelf, 2> shelves;  // of large and of small segments
  /** Of its blocks that wait for its own stream only; once there were any. */
  std::unique_ptr<WaitQueue> own;
  /** Of those that wait for another one, or in another way. None is empty. */
  std::map<std::pair<StreamId, Waits>, std::unique_ptr<WaitQueue>> queues;
  std::uint64_t visited = 0;

  [[nodiscard]] Shelf& shelf(bool small) noexcept { return shelves[small ? 1 : 0]; }
  [[nodiscard]] std::size_t blocks() const noexcept {
    return shelves[0].blocks() + shelves[1].blocks();
  }
};

}  // namespace millrace
