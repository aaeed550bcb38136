#pragma once

#include <array>
#include <cstddef>

#include "capture/capture_streams.hpp"
#include "capture/slot.hpp"
#include "capture/source_rows.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/**
 * @brief Enqueues the kernels and copies that bring rows from the tables to a slot's host memory.
 *
 * Thread safety: only the training thread calls `gather` and `drain`. The copier calls `fetch` and
 * `header`; with `sync` and `sync_pageable` the training thread fetches. A slot belongs to one of
 * them at a time (SlotPool); nothing else is shared.
 */
class Gatherer {
 public:
  /** @param rows  the source; outlives this */
  Gatherer(const CaptureEnvironment& environment, CaptureStreams& streams, SourceRows& rows);
  /**
   * @brief Allocates the two gather buffers of `ring_kernel`, of `slot_bytes` each. @throws
   * out_of_memory, DeviceError
   */
  void make_buffers(std::size_t slot_bytes);

  /**
   * @brief Enqueues the gather into the slot; with `ring_kernel`, into the next gather buffer. Rows
   * without room become dirty. @throws DeviceError, out_of_memory
   */
  void gather(Slot& slot, const GatheredRows& rows, const DirtyRows& dirty, StreamRef on);
  /**
   * @brief Enqueues the kernel that copies the last gather buffer to the slot, on the copy stream.
   * @throws DeviceError: slot and buffer stay `unsure` until the end of a later copy is known
   */
  void drain(Slot& slot, const GatheredRows& rows);
  /**
   * @brief Predicts the slot's header if nothing is computed (`ModelContext::cost_only`).
   * @return expected number of rows that do not fit
   */
  [[nodiscard]] double expect(Slot& slot, const GatheredRows& rows) const;

  /** @brief Result of a fetch: what timed copies copied. */
  struct Copied {
    std::size_t bytes = 0;
    Nanoseconds time{0};
  };
  /**
   * @brief Copies the header of a gathered slot, then as many bytes as the header announces, and
   * waits.
   * @throws DeviceError
   */
  [[nodiscard]] Copied fetch(Slot& slot, StreamRef on);
  /** @brief Returns the header of a slot whose rows are on the host. */
  [[nodiscard]] CaptureHeader header(Slot& slot) const;

  [[nodiscard]] SourceRows& rows() noexcept { return rows_; }
  [[nodiscard]] bool cost_only() const { return environment_.context.cost_only(); }

 private:
  /** A buffer of `ring_kernel` for gathers; a kernel copies from it to a slot. */
  struct GatherBuffer {
    Buffer device;
    Event drained;        ///< recorded after the last copy out of it
    bool unsure = false;  ///< no event follows the last copy out of it

    [[nodiscard]] SlotMemory memory() const {
      return {static_cast<std::byte*>(device.data()), device.size(), false};
    }
  };
  [[nodiscard]] bool staged() const noexcept { return static_cast<bool>(buffers_.front().device); }
  [[nodiscard]] SlotMemory next_buffer(StreamRef on);

  const CaptureEnvironment environment_;
  CaptureStreams& streams_;
  SourceRows& rows_;
  /** `ring_kernel` only, used in turn; the training thread's. */
  std::array<GatherBuffer, 2> buffers_;
  std::size_t buffer_ = 0;  ///< index of the buffer that was gathered into last
};

}  // namespace millrace::capture
