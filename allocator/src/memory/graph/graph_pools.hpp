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

/** @brief Leads holders to the pools of their allocator, while that lives. */
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
 * @brief The private pools of an allocator: which streams are captured into which, and which pools
 *        have no holder. Its lock is taken last, and no call is made under it.
 */
class GraphPools {
 public:
  GraphPools(GraphMemory& memory, OrderedDevice& device, const Policy& policy);
  ~GraphPools() { close(); }
  GraphPools(const GraphPools&) = delete;
  GraphPools& operator=(const GraphPools&) = delete;

  /** @brief Ends all captures, before the allocator goes. Holders may outlive it. */
  void close() noexcept;

  /** @brief Whether calls have to ask here at all. Takes no lock. */
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  [[nodiscard]] std::shared_ptr<GraphPool::Hold> make(GraphPool::HeldUntil until);
  /** @brief Begins a capture into the pool. One that throws has done nothing. */
  void begin(PrivatePool& pool, StreamRef origin);
  /** @brief Adds a stream to the pool's capture. One that throws has done nothing. */
  void join(PrivatePool& pool, StreamRef stream);
  /** @brief Ends the pool's capture, whatever it throws. */
  void end(PrivatePool& pool, bool kept);
  /** @brief The stream's inner reference, if it is in the pool's capture. */
  [[nodiscard]] std::optional<StreamRef> in_capture(const PrivatePool& pool, StreamRef stream);
  /** @brief The pool's last holder is gone. Makes no call. */
  void unheld(const PrivatePool& pool) noexcept;

  // Calls of the allocator. Where these return nullptr or false, pools have no part in the call.
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  /** @param stream  nullptr: the owner */
  bool deallocate(void* address, const StreamRef* stream);
  bool deallocate(void* address, Point marker);
  bool record_use(void* address, StreamRef stream) { return blocks_.record_use(address, stream); }
  bool transfer(void* address, StreamRef owner) { return blocks_.transfer(address, owner); }
  [[nodiscard]] std::size_t block_size(const void* address) const {
    return blocks_.block_size(address);
  }

  /** @brief Whether callers must not see this live block: a pool's segment, or freed and kept. */
  [[nodiscard]] bool hides(const void* address) const;
  /** @brief Whether it is a segment of a pool, or a block that graphs use. */
  [[nodiscard]] bool may_use(const void* address) const;
  void hide(const void* segment);
  void show(const void* segment);

  /** @brief If `stream` is captured: its graph uses this general memory. @return whether it is */
  bool use(void* address, StreamId stream);
  /** @brief The user frees general memory: `GraphUses::keep`. */
  [[nodiscard]] bool keep(void* address, PointSet& points);

  /** @brief Takes back the memory of pools without a holder. The caller holds no lock. */
  void tidy();
  [[nodiscard]] GraphPoolStatistics statistics() const;

 private:
  enum class Held {
    yes,
    no,         // to be given back
    lingering,  // given back, but for what is live
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

  mutable std::mutex mutex_;  // of everything below
  std::unordered_map<const PrivatePool*, Pool> pools_;
  Pool* unheld_ = nullptr;  // the first of those with Held::no
  std::list<Captured> captured_;
  GraphUses uses_;
  std::unordered_set<const void*> segments_;
};

}  // namespace millrace
