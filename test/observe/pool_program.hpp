#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "test/observe/what_if_script.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {

/// A random program with a driver pool, memory from cudaMalloc, and two streams that use each
/// other's blocks.
class PoolProgram {
 public:
  explicit PoolProgram(std::uint64_t seed) : random_(seed) {
    script_.writer->device(0, std::uint64_t{1} << 34, "GPU");
    streams_ = {script_.stream("main"), script_.stream("copy")};
    for_all_ = script_.writer->stream({.name = "cudaMalloc", .for_all = true});
  }

  /// Runs the program and returns the bytes of its trace.
  std::string trace(int steps) {
    for (int i = 0; i < steps; ++i) step();
    script_.writer.reset();
    return script_.sink.text;
  }
  trace::AllocationLog log(int steps) { return trace::parse_trace(trace(steps), "pool program"); }

 private:
  static constexpr std::uint64_t kPool = std::uint64_t{1} << 40;

  struct Block {
    std::uint64_t number = 0, address = 0, bytes = 0;
    std::uint32_t stream = 0;
  };

  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  void step() {
    ++script_.now;
    switch (below(8)) {
      case 0:
        return cuda_malloc();
      case 1:
        return cuda_free();
      case 2:
      case 3:
      case 4:
        return allocate();
      case 5:
        if (!live_.empty())
          script_.writer->used(live_[below(live_.size())].number, streams_[below(2)]);
        return;
      case 6:
        return free();
      default:
        return complete();
    }
  }

  // Allocates in the lowest gap of the pool. The pool grows if no gap is large enough.
  void allocate() {
    const std::uint64_t bytes = (1 + below(20)) * MiB / 2;
    std::uint64_t at = kPool;
    for (const Block& block : live_) {  // sorted by address
      if (at + bytes <= block.address) break;
      at = block.address + block.bytes;
    }
    const std::uint64_t end = at + bytes - kPool;
    if (end > pool_) script_.writer->reserved(0, 0, end - pool_);
    pool_ = std::max(pool_, end);
    const std::uint32_t stream = streams_[below(2)];
    const std::uint64_t number =
        script_.writer->allocated({.stream = stream, .address = at, .bytes = bytes});
    const auto place = std::ranges::lower_bound(live_, at, {}, &Block::address);
    live_.insert(place, {number, at, bytes, stream});
  }

  void free() {
    if (live_.empty()) return;
    const auto at = live_.begin() + static_cast<std::ptrdiff_t>(below(live_.size()));
    script_.writer->freed(at->number, streams_[below(2)]);
    waiting_.push_back(*at);
    live_.erase(at);
  }

  void complete() {
    if (waiting_.empty()) return;
    script_.writer->completed(waiting_.front().number);
    waiting_.erase(waiting_.begin());
  }

  void cuda_malloc() {
    const std::uint64_t at = 2 * kPool + next_++ * 64 * MiB, bytes = (1 + below(10)) * MiB;
    script_.writer->reserved(0, at, bytes);
    const std::uint64_t number = script_.writer->allocated(
        {.stream = for_all_, .address = at, .bytes = bytes - below(2) * 100});
    own_.push_back({number, at, bytes, for_all_});
  }

  void cuda_free() {
    if (own_.empty()) return;
    const Block block = own_.back();
    own_.pop_back();
    script_.writer->freed(block.number, for_all_);
    script_.writer->completed(block.number);
    script_.writer->released(0, block.address, block.bytes);
  }

  std::mt19937_64 random_;
  Script script_;
  std::vector<std::uint32_t> streams_;
  std::uint32_t for_all_ = 0;
  std::vector<Block> live_, waiting_, own_;
  std::uint64_t pool_ = 0, next_ = 0;
};

}  // namespace millrace::test
