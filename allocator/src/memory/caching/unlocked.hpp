#pragma once

#include <mutex>

#include "millrace/ordering/adaptive_mutex.hpp"

namespace millrace {

/** @brief The allocator's lock. A function that takes a Lock may drop it around a driver call. */
using Lock = std::unique_lock<AdaptiveMutex>;

/** @brief Drops the allocator's lock for a driver call, and takes it again when it is destroyed. */
class Unlocked {
 public:
  explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace millrace
