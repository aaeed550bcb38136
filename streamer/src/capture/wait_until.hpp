#pragma once

#include <algorithm>
#include <chrono>

#include "millrace/device/executor.hpp"

namespace millrace::capture {

/**
 * @brief Polls a condition at growing intervals. The result is late by at most an eighth of the
 * waiting time (or 1 us).
 * @return false if the condition was still false after `patience`, on the executor's clock
 */
template <typename Condition>
bool wait_until(Executor& executor, Nanoseconds patience, Condition&& condition) {
  constexpr Nanoseconds kShortest = std::chrono::microseconds{1};
  constexpr Nanoseconds kLongest = std::chrono::milliseconds{1};
  const Nanoseconds from = executor.now();
  while (!condition()) {
    const Nanoseconds waited = executor.now() - from;
    if (waited >= patience) return false;
    executor.spend(std::clamp(waited / 8, kShortest, kLongest));
  }
  return true;
}

}  // namespace millrace::capture
