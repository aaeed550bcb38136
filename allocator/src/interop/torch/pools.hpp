#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "interop/torch/pool.hpp"

namespace millrace::torch {

/** @brief The pools of one GPU, who uses them, and which requests they serve. Thread-safe. */
class Pools {
 public:
  using Filter = std::function<bool(CUstream_st*)>;

  /** @param give_back  gives free memory of the whole GPU back before a pool's request fails */
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
  /** @brief The pool that serves requests of the stream now; no pool: none does. */
  [[nodiscard]] Routed find(CUstream_st* stream);

  /** @brief The allocators that there are. */
  [[nodiscard]] std::vector<std::shared_ptr<Pool>> all() const;
  [[nodiscard]] std::shared_ptr<Pool> find(TorchPoolId id) const;
  /** @brief Ends the pools that nobody uses and whose blocks are all free: their memory goes back.
   */
  void end_unused();

 private:
  struct Entry {
    int uses = 0;
    bool no_split = false;
    std::shared_ptr<SegmentSource> source;
    std::shared_ptr<Pool> pool;  // made by the first request
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
