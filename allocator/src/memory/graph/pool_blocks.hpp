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
 * @brief Keeps the live blocks of private pools: the pool of each block, and the streams that use
 *        it.
 *
 * Callers pass the device's references of streams. A block that was used only by streams of its
 * capture, and is freed in it, serves that capture again. Any other block serves a later capture,
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

  // Like the calls of Allocator. If the address is not such a block, they do nothing and return
  // nullptr, false or 0.
  /**
   * @brief Frees the block. If it throws, the block is still live.
   * @param stream  nullptr: the owner
   * @return the block's pool
   */
  std::shared_ptr<PrivatePool> deallocate(void* address, const StreamRef* stream);
  std::shared_ptr<PrivatePool> deallocate(void* address, Point marker);
  bool record_use(void* address, StreamRef stream);
  bool transfer(void* address, StreamRef owner);
  [[nodiscard]] std::size_t block_size(const void* address) const;

 private:
  struct Live {
    std::shared_ptr<PrivatePool> pool;
    std::uint64_t capture;  // the number of the capture that allocated it
    StreamRef owner;
    FirstMarkers first_markers;
    StreamUses uses;  // recorded uses outside the capture
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
