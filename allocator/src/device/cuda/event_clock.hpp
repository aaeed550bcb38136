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
 * @brief Measures when timed events happened, from the clock's construction.
 *
 * CUDA returns the time between two events as a float of milliseconds, whose error reaches a
 * quarter of a millisecond after an hour. So a base event is recorded every second, on a stream of
 * its own, and an event is measured from the nearest base. Old bases are thinned out to limit their
 * number; the time of an event that was recorded hours ago is still exact to some microseconds. Use
 * the clock in the device's context.
 */
class EventClock {
 public:
  using HostNow = std::int64_t (*)();  ///< nanoseconds, never decreasing

  static constexpr std::size_t kMostBases = 1024;

  explicit EventClock(HostNow now = steady_now);

  /** @brief Records the next base if it is due. Call it whenever a timed event is recorded. */
  void tick();

  /**
   * @brief Returns the event's time.
   * @param event  a timed event that is complete
   */
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
  std::size_t placed_ = 0;                        ///< number of bases that have a time
  Nanoseconds spacing_{std::chrono::seconds{1}};  ///< least distance of the older bases
  std::atomic<std::int64_t> next_base_{0};
};

}  // namespace millrace::cuda
