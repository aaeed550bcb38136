#pragma once

#include <memory>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "device/virtual/work.hpp"

namespace millrace::simulation {

/**
 * @brief Runs one copy at a time: ordered by when it became ready, then by priority, then by host
 *        order.
 */
class CopyEngine {
 public:
  void add(std::shared_ptr<WorkItem> item, Nanoseconds now) {
    const int priority = item->stream->priority;
    waiting_.push({now, priority, item->index, std::move(item)});
  }

  /**
   * @brief Returns the next copy, which then occupies the engine; nullptr if the engine is busy or
   *        has none.
   */
  [[nodiscard]] std::shared_ptr<WorkItem> start() {
    if (busy_ || waiting_.empty()) return nullptr;
    busy_ = true;
    std::shared_ptr<WorkItem> item = waiting_.top().item;
    waiting_.pop();
    return item;
  }

  void finished() noexcept { busy_ = false; }

 private:
  struct Waiting {
    Nanoseconds ready;
    int priority;
    std::uint64_t index;
    std::shared_ptr<WorkItem> item;

    friend bool operator<(const Waiting& a, const Waiting& b) {
      return std::tie(a.ready, a.priority, a.index) > std::tie(b.ready, b.priority, b.index);
    }
  };

  std::priority_queue<Waiting> waiting_;
  bool busy_ = false;
};

}  // namespace millrace::simulation
