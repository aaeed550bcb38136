#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/graph/capture_device.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Which stream is ordered after which within a capture, by the one rule and a ledger of its
 *        own: the device's ledger knows nothing of captured work. Serves one capture after another.
 *
 * A stream has two references here: the device's ("outer") and the capture's ("inner").
 */
class CaptureOrder {
 public:
  /** @param remembers  a stream that joins again is the same inner stream as before */
  explicit CaptureOrder(bool remembers = false) : remembers_(remembers), device_(captured_) {}
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  /** @brief The ordering of what is captured. */
  [[nodiscard]] OrderedDevice& device() noexcept { return device_; }

  void begin() noexcept { captured_.set_capturing(true); }
  /** @brief Adds the stream to the capture, ordered after nothing yet. @return its inner reference
   */
  StreamRef join(StreamRef stream);
  /** @brief The stream's inner reference; nothing if it is not in the capture. */
  [[nodiscard]] std::optional<StreamRef> find(StreamId stream) const;
  /** @brief Whether the stream is in the capture; raw handles are compared as they are. */
  [[nodiscard]] bool has(StreamRef stream) const;
  /**
   * @brief Ends the capture. All that was freed in it is then complete, for the next capture.
   * @throws std::bad_alloc  after the capture has ended; `device().synchronize()` completes it then
   */
  void end();

 private:
  struct Joined {
    StreamRef outer, inner;
    bool takes_part;
  };

  void forget_former();

  const bool remembers_;
  CaptureDevice captured_;
  OrderedDevice device_;
  mutable std::mutex mutex_;     // of everything below
  std::vector<Joined> streams_;  // few
  std::uintptr_t next_handle_ = 1;
};

}  // namespace millrace
