#pragma once

#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "device/virtual/work.hpp"

namespace millrace::simulation {

/**
 * @brief Kernels that run at once and share the machine, as a fluid.
 *
 * Each kernel first spends its fixed time, then needs its share of rate and bandwidth. Streams of
 * one priority share in proportion to what they ask for; a lower priority gets what is left.
 */
class ComputeEngine {
 public:
  explicit ComputeEngine(unsigned concurrent) : concurrent_(concurrent) {}

  /** @brief `item` may run from now on. @return those that now begin (more wait for a place) */
  void add(std::shared_ptr<WorkItem> item);
  /** @brief Starts waiting kernels while there is room; call after `add` and `take_finished`. */
  std::vector<WorkItem*> start(Nanoseconds now);
  /** @brief Moves everything on to `now`, and takes out what has ended. */
  std::vector<std::shared_ptr<WorkItem>> take_finished(Nanoseconds now);
  /** @brief When the next one would end or change its demand, as things are. */
  [[nodiscard]] bool idle() const noexcept { return running_.empty(); }
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
