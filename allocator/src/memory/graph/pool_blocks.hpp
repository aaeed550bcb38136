#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "memory/contract.hpp"
#include "memory/graph/private_pool.hpp"
#include "memory/stream_uses.hpp"

namespace millrace {

/**
 * @brief The live blocks of private pools: which pool each is of, and the streams that use it.
 *
 * Streams are given by the device's references. A block that was used by streams of its capture
 * alone, and is freed in it, serves that capture again. Any other block serves a later capture,
 * once its uses are complete. Thread-safe; no call is made under its lock.
 */
class PoolBlocks {
 public:
  explicit PoolBlocks(OrderedDevice& device) : device_(device) {}
  PoolBlocks(const PoolBlocks&) = delete;
  PoolBlocks& operator=(const PoolBlocks&) = delete;

  /** @return nullptr if the capture of these streams has just ended */
  [[nodiscard]] void* allocate(const std::shared_ptr<PrivatePool>& pool, std::size_t bytes,
                               StreamRef owner, StreamRef user);

  // As the calls of Allocator. Nothing happens where the block is none of these.
  /**
   * @brief A free that throws leaves the block live.
   * @param stream  nullptr: the owner
   * @return the pool of the block
   */
  std::shared_ptr<PrivatePool> deallocate(void* address, const StreamRef* stream);
  std::shared_ptr<PrivatePool> deallocate(void* address, Point marker);
  bool record_use(void* address, StreamRef stream);
  bool transfer(void* address, StreamRef owner);
  [[nodiscard]] std::size_t block_size(const void* address) const;

 private:
  struct Live {
    std::shared_ptr<PrivatePool> pool;
    std::uint64_t capture;  // in which it was given out
    StreamRef owner;
    FirstMarkers first_markers;
    StreamUses uses;  // outside the capture
  };
  using LiveBlocks = std::unordered_map<const void*, Live>;

  [[nodiscard]] static std::optional<StreamRef> still_in(const Live& live, StreamId stream);
  void refuse_other_captures(const char* call, const Live& live, StreamId stream) const;
  void free_outside(void* address, const Live& live, StreamRef stream);

  OrderedDevice& device_;
  mutable std::mutex mutex_;
  LiveBlocks live_;
};

}  // namespace millrace
