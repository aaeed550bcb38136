#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "millrace/ordering/point.hpp"

namespace millrace::interpose {

class Gpu;

/** @brief What is known of one record of an event of the program's. */
struct Recorded {
  Gpu* gpu = nullptr;
  Point marker;  ///< a marker of Millrace's, recorded on the stream directly before the event
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

/**
 * @brief The program's events, by handle: the marker that each record is known to come after.
 *
 * An event that is recorded in a way that this library does not see would be taken for an earlier
 * record. So an event is forgotten before it is recorded or destroyed by any call that is seen, and
 * an event that may be recorded otherwise is never known: by another process, a graph, or a launch.
 *
 * A call that waits for an event looks before it and after it. Only if both find the same record
 * was it this one that the call waited for, whatever other threads do.
 */
class Events {
 public:
  /** @brief Call it before the event is recorded, and before it is destroyed. */
  void forget(cudaEvent_t event);
  void recorded(cudaEvent_t event, const Recorded& record);
  [[nodiscard]] std::optional<Recorded> find(cudaEvent_t event) const;

  /** @brief From now on it may be recorded unseen, until it is destroyed. */
  void never_know(cudaEvent_t event);
  void destroyed(cudaEvent_t event);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<cudaEvent_t, Recorded> known_;
  std::unordered_set<cudaEvent_t> unseen_;
};

}  // namespace millrace::interpose
