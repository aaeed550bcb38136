#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/stream.hpp"

namespace millrace {

/** @brief Driver events that nobody holds: creating one costs twenty times taking one from here. */
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] EventHandle take();
  void give(EventHandle event) noexcept;

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<EventHandle> free_;
};

/** @brief One recording of one driver event; the event returns to its pool when nobody holds it. */
struct Event::Mark {
  explicit Mark(std::shared_ptr<EventPool> from) : pool(std::move(from)), event(pool->take()) {}
  explicit Mark(EventHandle callers) : event(callers) {}
  ~Mark() {
    if (pool != nullptr) pool->give(event);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  [[nodiscard]] static std::shared_ptr<Mark> borrowed(EventHandle callers) {
    return std::make_shared<Mark>(callers);
  }

  std::shared_ptr<EventPool> pool;
  EventHandle event;
  std::uint64_t serial = 0;  // order of recording, over all streams
  Point point;
  Frontier snapshot;  // what a waiter joins, the marker itself included
};

}  // namespace millrace
