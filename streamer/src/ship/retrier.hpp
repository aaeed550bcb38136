#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>

#include "millrace/streamer/shipper.hpp"
#include "ship/backoff.hpp"
#include "ship/lifecycle.hpp"

namespace millrace::ship {

/** @brief Thrown when the deadline has passed and a call must not be retried. */
struct OutOfTime {};

/**
 * @brief Repeats calls to a sink until they succeed, with growing pauses.
 *
 * Thread safety: only the actor calls `insist`, `failed` and `pause`; any thread may call the
 * others.
 */
class Retrier {
 public:
  /** @param options  outlives this, like `lifecycle` */
  Retrier(Executor& executor, const ShippingOptions& options, const Lifecycle& lifecycle)
      : executor_(executor), lifecycle_(lifecycle), backoff_(options) {}

  /**
   * @brief Makes a call until it succeeds. SinkError `retry` and a lack of host memory are retried.
   * @return what the call returns
   * @throws OutOfTime; SinkError of other kinds; other exceptions of the call
   */
  template <typename Call>
  auto insist(Call&& call);
  /** @brief Counts a failed call that the caller handles. */
  void failed(const char* what);
  /** @brief Waits before the next attempt, in slices, so that a new deadline takes effect.
   *  @throws OutOfTime */
  void pause();

  /** @brief Whether calls fail now. */
  struct Health {
    Nanoseconds failing_for{0};  ///< 0: the last call succeeded
    std::string error;           ///< message of the last failed call, while calls fail
  };
  [[nodiscard]] Health health() const;
  /** @return number of failed calls */
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }
  /** @return message of the last failed call; empty: no call failed */
  [[nodiscard]] std::string last_error() const;
  /** @brief Call after the last call: `health` reports no failure from now on. */
  void end() noexcept { failing_since_ = kNever; }

 private:
  static constexpr Nanoseconds::rep kNever = -1;

  void succeeded();

  Executor& executor_;
  const Lifecycle& lifecycle_;
  Backoff backoff_;  ///< used by the actor only
  std::atomic<std::uint64_t> failures_ = 0;
  std::atomic<Nanoseconds::rep> failing_since_ = kNever;
  mutable std::mutex mutex_;  ///< protects `error_`
  std::string error_;
};

template <typename Call>
auto Retrier::insist(Call&& call) {
  while (true) {
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return succeeded();
      } else {
        auto result = call();
        succeeded();
        return result;
      }
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::retry) throw;
      failed(error.what());
    } catch (const std::bad_alloc&) {
      failed("out of host memory");
    }
    pause();
  }
}

}  // namespace millrace::ship
