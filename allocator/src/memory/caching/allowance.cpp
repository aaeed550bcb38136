#include "memory/caching/allowance.hpp"

#include <thread>

namespace millrace {

bool Allowance::obtain(std::size_t bytes, Lock& lock, const std::function<void()>& ask) {
  // Growths in progress count as reserved, so concurrent threads stay within the limit together.
  const std::size_t reserved = stock_.meter.bytes().reserved.current + growing_.bytes();
  if (limits_.limit != 0 && reserved + bytes > limits_.limit) return false;
  const Growths::Growth growth = growing_.begin(bytes);
  bool obtained = false;
  try {
    obtained = leaves_headroom(growth, lock);
    if (obtained) {
      const Unlocked unlocked{lock};
      ask();
    }
  } catch (const DeviceError& error) {
    growing_.end(growth);
    if (error.code() != ErrorCode::out_of_memory) throw;
    return false;
  } catch (...) {
    growing_.end(growth);
    throw;
  }
  growing_.end(growth);
  return obtained;
}

std::optional<AddressRange> Allowance::addresses(Lock& lock) {
  try {
    const Unlocked unlocked{lock};
    return stock_.source.reserve();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return {};
  }
}

// Two threads that see the same free memory would both take it. So each growth also counts the
// growths that began before it. Memory that an earlier growth has taken by then counts twice.
// Therefore a growth is refused only after all earlier ones have ended.
bool Allowance::leaves_headroom(Growths::Growth growth, Lock& lock) {
  while (limits_.headroom != 0) {
    const std::size_t wanted = growing_.bytes_up_to(growth);
    std::size_t free = 0;
    {
      const Unlocked unlocked{lock};
      free = stock_.device.device().memory_info().free;
    }
    const std::size_t headroom = limits_.headroom;
    if (free >= headroom && free - headroom >= wanted) return true;
    if (wanted == *growth) return false;
    const Unlocked unlocked{lock};
    std::this_thread::yield();
  }
  return true;
}

}  // namespace millrace
