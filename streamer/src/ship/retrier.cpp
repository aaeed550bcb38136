#include "ship/retrier.hpp"

#include <algorithm>

namespace millrace::ship {
namespace {

/** Longest part of a pause without a check of the deadline. */
constexpr Nanoseconds kSlice = std::chrono::milliseconds{10};

}  // namespace

void Retrier::succeeded() {
  backoff_.reset();
  failing_since_ = kNever;
}

void Retrier::failed(const char* what) {
  ++failures_;
  {
    const std::lock_guard lock{mutex_};
    error_ = what;
  }
  Nanoseconds::rep never = kNever;
  // Only the first failure of a series sets the time.
  failing_since_.compare_exchange_strong(never, executor_.now().count());
}

void Retrier::pause() {
  const Nanoseconds end = executor_.now() + backoff_.next();
  // In slices, so that a deadline that is set meanwhile ends the pause.
  while (executor_.now() < end) {
    if (lifecycle_.out_of_time()) throw OutOfTime{};
    executor_.spend(std::min<Nanoseconds>(end - executor_.now(), kSlice));
  }
  if (lifecycle_.out_of_time()) throw OutOfTime{};
}

Retrier::Health Retrier::health() const {
  const Nanoseconds::rep since = failing_since_;
  if (since == kNever) return {};
  Health health{.failing_for = std::max(executor_.now() - Nanoseconds{since}, Nanoseconds{1}),
                .error = last_error()};
  return health;
}

std::string Retrier::last_error() const {
  const std::lock_guard lock{mutex_};
  return error_;
}

}  // namespace millrace::ship
