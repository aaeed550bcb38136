#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "memory/graph/capture_device.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Who is ordered after whom among the streams of one capture after another, by the one rule
 *        and a ledger of its own: that of the device says nothing of what is captured.
 *
 * Streams are known here by two references: that of the device, and that of the capture.
 */
class CaptureOrder {
 public:
  /** @param remembers  a stream that takes part again is the same one as before */
  explicit CaptureOrder(bool remembers = false) : remembers_(remembers), device_(captured_) {}
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  /** @brief The ordering of what is captured. */
  [[nodiscard]] OrderedDevice& device() noexcept { return device_; }

  void begin() { captured_.set_capturing(true); }
  /** @brief The stream takes part from now on; ordered after nothing yet. */
  StreamRef join(StreamRef stream);
  /** @brief Its reference in the capture; nothing if it takes no part. */
  [[nodiscard]] std::optional<StreamRef> find(StreamId stream) const;
  /** @brief Whether it takes part; a raw handle is compared as it is. */
  [[nodiscard]] bool has(StreamRef stream) const;
  /** @brief Ends it: what was freed so far can be had by whatever is captured next. @return who
   * took part */
  std::vector<StreamRef> end();

 private:
  using Streams = std::vector<std::pair<StreamRef, StreamRef>>;  // few

  const bool remembers_;
  CaptureDevice captured_;
  OrderedDevice device_;
  mutable std::mutex mutex_;  // of everything below
  Streams streams_;           // that take part
  Streams former_;            // that took part before, if they are remembered
  std::uintptr_t next_handle_ = 1;
};

}  // namespace millrace
