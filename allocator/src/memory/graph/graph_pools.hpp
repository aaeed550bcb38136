#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "memory/graph/graph_uses.hpp"
#include "memory/graph/pool_blocks.hpp"
#include "memory/graph/private_pool.hpp"

namespace millrace {

class GraphPools;

/** @brief Leads holders to the pools of their allocator while the allocator exists. */
struct GraphPoolsLink {
  std::mutex mutex;  // never held across a driver call
  GraphPools* pools = nullptr;
};

struct GraphPool::Hold {
  ~Hold();
  /** @throws std::logic_error if the allocator is gone */
  [[nodiscard]] GraphPools& pools() const;

  std::shared_ptr<GraphPoolsLink> link;
  std::shared_ptr<PrivatePool> pool;
};

/**
 * @brief Keeps the private pools of an allocator: which streams are captured into which pool, and
 *        which pools have no holder. Its lock is taken last, and no call is made under it.
 */
class GraphPools {
 public:
  GraphPools(GraphMemory& memory, OrderedDevice& device, const Policy& policy);
  ~GraphPools() { close(); }
  GraphPools(const GraphPools&) = delete;
  GraphPools& operator=(const GraphPools&) = delete;

  /** @brief Ends all captures before the allocator is destroyed. Holders may outlive it. */
  void close() noexcept;

  /** @brief Returns whether calls have to consult the pools at all. Takes no lock. */
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  /** @brief Makes a pool and its first holder. */
  [[nodiscard]] std::shared_ptr<GraphPool::Hold> make(GraphPool::HeldUntil until);
  /** @brief Begins a capture into the pool. Has no effect if it throws. */
  void begin(PrivatePool& pool, StreamRef origin);
  /** @brief Adds a stream to the pool's capture. Has no effect if it throws. */
  void join(PrivatePool& pool, StreamRef stream);
  /**
   * @brief Ends the pool's capture, also if it throws.
   * @param kept  whether the capture made a graph
   */
  void end(PrivatePool& pool, bool kept);
  /**
   * @brief Returns the stream's inner reference if it is in the pool's capture, otherwise nothing.
   */
  [[nodiscard]] std::optional<StreamRef> in_capture(const PrivatePool& pool, StreamRef stream);
  /** @brief Queues the pool to be given back, when its last holder is gone. Makes no call. */
  void unheld(const PrivatePool& pool) noexcept;

  // Calls of the allocator. If they return nullptr, false or 0, the call does not concern a pool.
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  /** @param stream  nullptr: the owner */
  bool deallocate(void* address, const StreamRef* stream);
  bool deallocate(void* address, Point marker);
  bool record_use(void* address, StreamRef stream) { return blocks_.record_use(address, stream); }
  bool transfer(void* address, StreamRef owner) { return blocks_.transfer(address, owner); }
  [[nodiscard]] std::size_t block_size(const void* address) const {
    return blocks_.block_size(address);
  }

  /**
   * @brief Returns whether the live block at `address` is hidden from callers: a pool's segment, or
   *        a block that was freed and is kept for graphs.
   */
  [[nodiscard]] bool hides(const void* address) const;
  /**
   * @brief Returns whether `address` is a pool's segment, or a block that graphs use or have used.
   */
  [[nodiscard]] bool may_use(const void* address) const;
  /** @brief Hides a pool's segment from callers; `show` reveals it again. */
  void hide(const void* segment);
  void show(const void* segment);

  /**
   * @brief If `stream` is captured, notes that its graph uses the general memory at `address`.
   * @return whether it is captured
   */
  bool use(void* address, StreamId stream);
  /** @brief Keeps general memory that the user frees, if graphs use it: `GraphUses::keep`. */
  [[nodiscard]] bool keep(void* address, PointSet& points);

  /** @brief Gives back the memory of pools without a holder. The caller holds no lock. */
  void tidy();
  [[nodiscard]] GraphPoolStatistics statistics() const;

 private:
  enum class Held {
    yes,
    no,         // queued to be given back
    lingering,  // given back, except live blocks
  };
  struct Pool {
    std::shared_ptr<PrivatePool> pool;
    Held held = Held::yes;
    Pool* next_unheld = nullptr;
  };

  struct Captured {
    StreamRef stream;
    std::shared_ptr<PrivatePool> pool;
  };

  [[nodiscard]] std::shared_ptr<PrivatePool> pool_of(StreamId stream) const;
  [[nodiscard]] std::shared_ptr<PrivatePool> require_one_pool(StreamId owner, StreamId user) const;
  void end_on_device(const PrivatePool& pool) noexcept;
  void end_capture(StreamRef stream) noexcept;
  void to_be_given_back(Pool& pool) noexcept;
  [[nodiscard]] Pool* next_to_give_back() noexcept;
  void give_back(Pool& pool);
  void end_uses(PrivatePool& pool);
  void freed_in(const PrivatePool& pool) noexcept;
  void note_any() noexcept;

  GraphMemory& memory_;
  OrderedDevice& device_;
  const Policy& policy_;
  const std::shared_ptr<GraphPoolsLink> link_;
  PoolBlocks blocks_;
  std::atomic<bool> any_{false};
  std::atomic<bool> untidy_{false};

  std::mutex tidying_;  // held while pools are given back, by one thread; taken before `mutex_`

  mutable std::mutex mutex_;  // guards everything below
  std::unordered_map<const PrivatePool*, Pool> pools_;
  Pool* unheld_ = nullptr;  // the first pool with Held::no
  std::list<Captured> captured_;
  GraphUses uses_;
  std::unordered_set<const void*> segments_;
};

}  // namespace millrace
