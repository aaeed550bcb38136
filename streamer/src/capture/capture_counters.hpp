#pragma once

#include <mutex>

#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/** @brief The statistics of a capture. Thread-safe; its mutex is locked only for additions. */
class CaptureCounters {
 public:
  /** @brief Calls `change` with the counts. */
  template <typename Change>
  void change(Change&& change) {
    const std::lock_guard lock{mutex_};
    change(counts_);
  }
  /** @brief Counts a failed driver call. */
  void failed() {
    change([](CaptureCounts& counts) { ++counts.failures; });
  }
  /** @brief Counts a wait of the training thread. */
  void waited(Nanoseconds time) {
    change([&](CaptureCounts& counts) {
      ++counts.waits;
      counts.waited += time;
    });
  }
  [[nodiscard]] CaptureCounts counts() const {
    const std::lock_guard lock{mutex_};
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  CaptureCounts counts_;
};

}  // namespace millrace::capture
