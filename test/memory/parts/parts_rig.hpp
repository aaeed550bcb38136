#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {

/// Segments and ranges that are only addresses. Pages of 2 MiB.
struct CountedSource final : SegmentSource {
  void* acquire(std::size_t bytes) override { return take(bytes); }
  void release(void* base, std::size_t bytes) override { released[base] = bytes; }
  [[nodiscard]] std::size_t granularity() const override { return 2 * MiB; }
  [[nodiscard]] std::size_t page_bytes() const override { return 2 * MiB; }
  AddressRange reserve() override { return {take(1 * GiB), 1 * GiB}; }
  void give_back(AddressRange) override {}
  void map(void*, std::size_t) override {}
  void unmap(void* address, std::size_t bytes) override { unmapped[address] = bytes; }
  [[nodiscard]] bool can_move() const override { return true; }
  void begin_move(void*, void*, std::size_t) override {}
  void end_move(void* from, std::size_t bytes) override {
    if (refuses) throw DeviceError{ErrorCode::unknown, "end_move", "refused"};
    ended[from] = bytes;
  }

  std::map<void*, std::size_t> released, unmapped, ended;
  bool refuses = false;

 private:
  void* take(std::size_t bytes) {
    void* const base = reinterpret_cast<void*>(next_);
    next_ += bytes;
    return base;
  }
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

/// The parts that nearly all others use, on a virtual device, with the allocator's lock held.
struct PartsRig : Bench {
  explicit PartsRig(Policy policy = Policy::millrace())
      : stock(ordered, counted, std::move(policy)) {}

  CountedSource counted;
  Stock stock;
  Reports reports{stock.device, stock.meter};
  FreeBlocks free_blocks{stock};
  Completions completions{stock, free_blocks};
  Lock lock{stock.mutex};

  /// Returns a claimed block that is a whole segment, in the lane of `stream`.
  Block* segment(std::size_t bytes, const Stream& stream, bool small = false) {
    Block* const block = stock.heap.add_segment(counted.acquire(bytes), bytes, small);
    stock.turns.current().reserved(bytes);
    block->lane = stream.id();
    return block;
  }
  /// Like `segment`, with the next `bytes` bytes of a range.
  Block* in_range(std::size_t bytes, const Stream& stream) {
    if (stock.heap.ranges().empty()) {
      const AddressRange range = counted.reserve();
      stock.heap.add_range(range.base, range.bytes, stream.id(), counted.page_bytes());
    }
    Block* const block = stock.heap.fill(*stock.heap.ranges().front(), nullptr, bytes);
    stock.turns.current().reserved(bytes);
    block->state = BlockState::claimed;
    block->lane = stream.id();
    return block;
  }
  /// Returns the point that a free on `stream` has now.
  [[nodiscard]] Point freed(const Stream& stream) const {
    return {stream.id(), ordered.ledger().next(stream.id())};
  }
  /// Frees a claimed block whose last use was on `stream`.
  void put(Block* block, const Stream& stream) {
    block->points = PointSet{freed(stream)};
    free_blocks.put(block);
  }
  /// Launches 5 ms of work on the stream, then marks the stream.
  Point work(const Stream& stream) {
    device.launch(fixed_kernel("work", std::chrono::milliseconds{5}), stream.handle());
    return ordered.mark(stream);
  }
};

}  // namespace millrace::test
