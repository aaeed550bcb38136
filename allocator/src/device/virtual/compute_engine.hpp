#pragma once

#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "device/virtual/work.hpp"

namespace millrace::simulation {

/**
 * @brief Kernels that run at the same time and share the machine, modeled as a fluid.
 *
 * Each kernel first spends its fixed time, then needs its share of rate and bandwidth. Streams of
 * one priority share in proportion to their needs; a lower priority gets the rest.
 */
class ComputeEngine {
 public:
  explicit ComputeEngine(unsigned concurrent) : concurrent_(concurrent) {}

  /** @brief Makes `item` ready. `start` begins it when a place is free. */
  void add(std::shared_ptr<WorkItem> item);
  /**
   * @brief Starts waiting kernels while places are free. Call it after `add` and `take_finished`.
   * @return the kernels that begin now
   */
  std::vector<WorkItem*> start(Nanoseconds now);
  /** @brief Advances all kernels to `now`, and removes and returns those that have ended. */
  std::vector<std::shared_ptr<WorkItem>> take_finished(Nanoseconds now);
  [[nodiscard]] bool idle() const noexcept { return running_.empty(); }
  /** @brief Returns when the next kernel ends or changes its demand, if nothing is added before. */
  [[nodiscard]] Nanoseconds next_change(Nanoseconds now) const;

 private:
  struct Running {
    std::shared_ptr<WorkItem> item;
    int priority;
    double fixed;
    double shared;
    double speed;
  };
  struct Later {
    bool operator()(const std::shared_ptr<WorkItem>& a, const std::shared_ptr<WorkItem>& b) const;
  };

  void advance(Nanoseconds now);
  void share();

  unsigned concurrent_;
  Nanoseconds now_{0};
  std::vector<Running> running_;  ///< by priority, then by start
  std::priority_queue<std::shared_ptr<WorkItem>, std::vector<std::shared_ptr<WorkItem>>, Later>
      waiting_;
};

}  // namespace millrace::simulation
