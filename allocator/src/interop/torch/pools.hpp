#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "interop/torch/pool.hpp"

namespace millrace::torch {

/** @brief The memory pools of one GPU, their use counts, and the requests that they serve.
 *         Thread-safe. */
class Pools {
 public:
  using Filter = std::function<bool(CUstream_st*)>;

  /** @param give_back  releases free memory of all pools before a pool's request fails */
  Pools(OrderedDevice& order, Book& book, Policy policy, std::function<std::size_t()> give_back);

  void use(TorchPoolId id, std::shared_ptr<SegmentSource> source);
  void release(TorchPoolId id);
  [[nodiscard]] int uses(TorchPoolId id) const;
  void set_no_split(TorchPoolId id);
  void begin_route(TorchPoolId id, Filter filter);
  void end_route(TorchPoolId id);

  /** @brief A pool and its number. */
  struct Routed {
    TorchPoolId id;
    std::shared_ptr<Pool> pool;
  };
  /** @brief Returns the pool that serves requests of the stream now; `pool` is null if none does.
   */
  [[nodiscard]] Routed find(CUstream_st* stream);

  /** @brief Returns the pools that have an allocator. */
  [[nodiscard]] std::vector<std::shared_ptr<Pool>> all() const;
  [[nodiscard]] std::shared_ptr<Pool> find(TorchPoolId id) const;
  /** @brief Destroys the pools that have no user and no live block, and releases their memory. */
  void end_unused();

 private:
  struct Entry {
    int uses = 0;
    bool no_split = false;
    std::shared_ptr<SegmentSource> source;
    std::shared_ptr<Pool> pool;  // created by the first request
  };
  struct Route {
    TorchPoolId id;
    std::shared_ptr<const Filter> filter;
  };

  Entry& entry(TorchPoolId id);
  std::shared_ptr<Pool> made(TorchPoolId id);

  OrderedDevice& order_;
  Book& book_;
  const Policy policy_;
  const std::function<std::size_t()> give_back_;
  mutable std::mutex mutex_;
  std::map<TorchPoolId, Entry> pools_;
  std::vector<Route> routes_;
  std::atomic<bool> any_routes_{false};
};

}  // namespace millrace::torch
