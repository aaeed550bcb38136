#pragma once

#include <mutex>

namespace millrace {

/** @brief The allocator's lock. A function that takes one may drop it around a driver call. */
using Lock = std::unique_lock<std::mutex>;

/** @brief Around a driver call: drops the allocator's lock, and takes it again. */
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
