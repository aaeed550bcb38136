#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "millrace/ordering/point.hpp"

namespace millrace::interpose {

class Gpu;

/** @brief One known record of an event of the program. */
struct Recorded {
  Gpu* gpu = nullptr;
  Point marker;  ///< Millrace's marker, recorded on the stream directly before the event
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

/**
 * @brief The program's events, by handle. Each known record has the marker that it comes after.
 *
 * A record that this library does not see would be mistaken for an earlier record. So an event is
 * forgotten before each seen call that records or destroys it. An event that another process, a
 * graph or a launch may record is never known.
 *
 * A call that waits for an event looks up the record before and after the wait. If both look-ups
 * find the same record, the call has waited for this record, regardless of other threads.
 */
class Events {
 public:
  /** @brief Call it before the event is recorded or destroyed. */
  void forget(cudaEvent_t event);
  void recorded(cudaEvent_t event, const Recorded& record);
  [[nodiscard]] std::optional<Recorded> find(cudaEvent_t event) const;

  /** @brief The event may be recorded unseen from now on, until it is destroyed. */
  void never_know(cudaEvent_t event);
  void destroyed(cudaEvent_t event);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<cudaEvent_t, Recorded> known_;
  std::unordered_set<cudaEvent_t> unseen_;
};

}  // namespace millrace::interpose
