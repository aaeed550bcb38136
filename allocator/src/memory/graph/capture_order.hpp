#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/graph/capture_device.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Keeps the order of the streams of a capture by the one rule, on a ledger of its own,
 *        because the device's ledger does not know captured work. Serves one capture after another.
 *
 * A stream has two references here: the device's ("outer") and the capture's ("inner").
 */
class CaptureOrder {
 public:
  /** @param remembers  whether a stream that joins a later capture keeps its inner reference */
  explicit CaptureOrder(bool remembers = false) : remembers_(remembers), device_(captured_) {}
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;

  /** @brief Returns the order of the captured work. */
  [[nodiscard]] OrderedDevice& device() noexcept { return device_; }

  /** @brief Begins a capture, without streams. */
  void begin() noexcept { captured_.set_capturing(true); }
  /**
   * @brief Adds the stream to the capture, ordered after nothing.
   * @return its inner reference
   */
  StreamRef join(StreamRef stream);
  /** @brief Returns the stream's inner reference; nothing if it is not in the capture. */
  [[nodiscard]] std::optional<StreamRef> find(StreamId stream) const;
  /** @brief Returns whether the stream is in the capture. Compares handles only. */
  [[nodiscard]] bool has(StreamRef stream) const;
  /**
   * @brief Ends the capture. Memory that was freed in it is complete for the next capture.
   * @throws std::bad_alloc after the capture has ended; `device().synchronize()` then completes
   *         that memory
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
  mutable std::mutex mutex_;     // guards everything below
  std::vector<Joined> streams_;  // few
  std::uintptr_t next_handle_ = 1;
};

}  // namespace millrace
