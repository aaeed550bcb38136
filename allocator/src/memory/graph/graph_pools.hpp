#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory/contract.hpp"
#include "memory/graph/graph_uses.hpp"
#include "memory/graph/private_pool.hpp"

namespace millrace {

class GraphPools;

/** @brief The way from holders to the pools, while there are pools. */
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
 * @brief The private pools of an allocator: which streams are captured into which, and whose each
 *        block is. Its lock is taken last, and no call is made under it.
 */
class GraphPools {
 public:
  GraphPools(GraphMemory& memory, OrderedDevice& device, const Policy& policy);
  ~GraphPools() { close(); }
  GraphPools(const GraphPools&) = delete;
  GraphPools& operator=(const GraphPools&) = delete;

  /** @brief Before the allocator goes: holders and captures are on their own then. */
  void close();

  /** @brief Whether calls have to ask here at all. Takes no lock. */
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  [[nodiscard]] std::shared_ptr<GraphPool::Hold> make(GraphPool::HeldUntil until);
  void begin(PrivatePool& pool, StreamRef origin);
  void join(PrivatePool& pool, StreamRef stream);
  void end(PrivatePool& pool, bool kept);
  /** @brief The stream's reference in the pool's capture, if it takes part. */
  [[nodiscard]] std::optional<StreamRef> in_capture(const PrivatePool& pool, StreamRef stream);
  void unheld(const std::shared_ptr<PrivatePool>& pool);

  // Calls of the allocator, which go on as ever where these return nullptr or false.
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  /** @param stream  nullptr: the owner */
  bool deallocate(void* address, const StreamRef* stream);
  bool deallocate(void* address, Point marker);
  bool record_use(void* address, StreamRef stream);
  bool transfer(void* address, StreamRef owner);
  [[nodiscard]] std::size_t block_size(const void* address) const;

  /** @brief Whether the live block is none to callers: a pool's segment, or freed already. */
  [[nodiscard]] bool hides(const void* address) const;
  void hide(const void* segment);
  void show(const void* segment);

  /** @brief If `stream` is captured: its graph uses this general memory. @return whether it is */
  bool use(void* address, StreamId stream);
  /** @brief The user frees general memory: `GraphUses::keep`. */
  [[nodiscard]] bool keep(void* address, PointSet& points);

  /** @brief Takes back what is held by nobody any more. No lock is held. */
  void tidy();
  [[nodiscard]] GraphPoolStatistics statistics() const;

 private:
  struct Live {
    std::shared_ptr<PrivatePool> pool;
    std::uint64_t capture;  // in which it was given out
    StreamRef owner;
    FirstMarkers first_markers;
    Few<StreamRef> uses;  // outside the capture
  };

  [[nodiscard]] std::shared_ptr<PrivatePool> pool_of(StreamId stream) const;
  [[nodiscard]] static std::optional<StreamRef> still_in(const Live& live, StreamId stream);
  void end_captures(const std::vector<StreamRef>& streams);
  void give_back(const std::shared_ptr<PrivatePool>& pool);
  void end_uses(PrivatePool& pool);
  void freed_in(const std::shared_ptr<PrivatePool>& pool);

  GraphMemory& memory_;
  OrderedDevice& device_;
  const Policy& policy_;
  const std::shared_ptr<GraphPoolsLink> link_;
  std::atomic<bool> any_{false};
  std::atomic<bool> untidy_{false};

  mutable std::mutex mutex_;  // of everything below
  std::vector<std::shared_ptr<PrivatePool>> pools_;
  std::vector<std::shared_ptr<PrivatePool>> unheld_;  // of them; since the last look
  std::unordered_set<const PrivatePool*> lingering_;  // unheld before, with live blocks
  std::vector<std::pair<StreamId, std::shared_ptr<PrivatePool>>> captured_;
  std::unordered_map<const void*, Live> live_;
  GraphUses uses_;
  std::unordered_set<const void*> segments_;
};

}  // namespace millrace
