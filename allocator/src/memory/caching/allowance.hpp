#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/growths.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief How much more the allocator may take from the device, while several threads ask. */
class Allowance {
 public:
  Allowance(Stock& stock, MemoryLimits limits) : stock_(stock), limits_(limits) {}

  /** @brief Whether `ask` got `bytes` more from the device; the limit or the device may say no. */
  bool obtain(std::size_t bytes, Lock& lock, const std::function<void()>& ask);

  /** @brief A range of addresses, which is no memory yet. None if the driver has no more of them.
   */
  std::optional<AddressRange> addresses(Lock& lock);

  [[nodiscard]] std::size_t limit() const noexcept { return limits_.limit; }
  void set_limit(std::size_t bytes) noexcept { limits_.limit = bytes; }
  void set_headroom(std::size_t bytes) noexcept { limits_.headroom = bytes; }

 private:
  bool leaves_headroom(Growths::Growth growth, Lock& lock);

  Stock& stock_;
  MemoryLimits limits_;
  Growths growing_;
};

}  // namespace millrace
