#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/growths.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/**
 * @brief Limits the memory that the allocator takes from the device, also while several threads
 *        grow.
 */
class Allowance {
 public:
  Allowance(Stock& stock, MemoryLimits limits) : stock_(stock), limits_(limits) {}

  /**
   * @brief Calls `ask`, which takes `bytes` from the device, if the limit and the headroom allow
   *        it. Drops the lock for the calls.
   * @return false if the limit, the headroom or the device refused
   * @throws any exception of `ask` except DeviceError (out_of_memory)
   */
  bool obtain(std::size_t bytes, Lock& lock, const std::function<void()>& ask);

  /**
   * @brief Reserves a range of addresses, without memory. Drops the lock for the call.
   * @return nothing if the driver has no such range left
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
