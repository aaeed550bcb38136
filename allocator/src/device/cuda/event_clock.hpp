#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/cuda/handles.hpp"
#include "millrace/device/operation.hpp"

namespace millrace::cuda {

/**
 * @brief When timed events happened, counted from this clock's making.
 *
 * CUDA gives the distance of two events as a float of milliseconds, which after an hour is good to
 * a quarter of one. So a base event is recorded every second, on a stream of its own, and an event
 * is measured from the base nearest to it. Old bases become sparser, so that their number is
 * bounded: the time of an event that was recorded hours ago is known to some microseconds. Use it
 * in the device's context.
 */
class EventClock {
 public:
  using HostNow = std::int64_t (*)();  ///< nanoseconds, never going back

  static constexpr std::size_t kMostBases = 1024;

  explicit EventClock(HostNow now = steady_now);

  /** @brief To be called as timed events are recorded: makes the next base when one is due. */
  void tick();

  /** @param event  timed and complete */
  [[nodiscard]] Nanoseconds time_of(cudaEvent_t event);

 private:
  struct Base {
    UniqueEvent event;
    Nanoseconds time{0};
  };

  [[nodiscard]] static std::int64_t steady_now();
  void add_base();
  void thin_out();
  void place_completed_bases();
  [[nodiscard]] const Base& nearest(Nanoseconds time) const;

  HostNow now_;
  UniqueStream stream_ = make_stream();
  std::mutex mutex_;
  std::vector<Base> bases_;
  std::size_t placed_ = 0;                        ///< how many of them have a time
  Nanoseconds spacing_{std::chrono::seconds{1}};  ///< of the older ones, at least
  std::atomic<std::int64_t> next_base_{0};
};

}  // namespace millrace::cuda
