#pragma once

#include <array>
#include <cstddef>

#include "capture/capture_streams.hpp"
#include "capture/slot.hpp"
#include "capture/source_rows.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::capture {

/**
 * @brief The kernels and copies that bring rows from the tables to a slot's host memory.
 *
 * Thread safety: `gather` and `drain` are the training thread's. `fetch` and `header` are the
 * copier's, except with `sync` and `sync_pageable`, where the training thread fetches. A slot
 * belongs to one of them at a time (SlotPool); nothing else is shared.
 */
class Gatherer {
 public:
  /** @param rows  the source, which outlives this. With `ring_kernel`, makes two stagings of
   *               `slot_bytes`. @throws out_of_memory, DeviceError */
  Gatherer(const CaptureEnvironment& environment, CaptureStreams& streams, SourceRows& rows);
  void make_buffers(std::size_t slot_bytes);

  /** @brief Enqueues the gather into the slot, or into the next staging. Rows without room become
   *         dirty. @throws DeviceError, out_of_memory */
  void gather(Slot& slot, const GatheredRows& rows, const DirtyRows& dirty, StreamRef on);
  /** @brief Enqueues the kernel that copies the last staging to the slot, on the copy stream.
   *  @throws DeviceError: until another copy's end is known, slot and staging stay `unsure` */
  void drain(Slot& slot, const GatheredRows& rows);
  /**
   * @brief Predicts the slot's header where nothing is computed.
   * @return rows that will not fit, as modeled
   */
  [[nodiscard]] double expect(Slot& slot, const GatheredRows& rows) const;

  /** @brief What a fetch copied by timed copies. */
  struct Copied {
    std::size_t bytes = 0;
    Nanoseconds time{0};
  };
  /** @brief Copies the header of a gathered slot, which says how much follows, and then that much,
   *         and waits. @throws DeviceError */
  [[nodiscard]] Copied fetch(Slot& slot, StreamRef on);
  /** @brief The header of a slot on the host. */
  [[nodiscard]] CaptureHeader header(Slot& slot) const;

  [[nodiscard]] SourceRows& rows() noexcept { return rows_; }
  [[nodiscard]] bool cost_only() const { return environment_.context.cost_only(); }

 private:
  /** What gathers write to before a kernel copies it to a slot. */
  struct GatherBuffer {
    Buffer device;
    Event drained;        ///< after the last copy out of it
    bool unsure = false;  ///< a copy out of it has no event after it

    [[nodiscard]] SlotMemory memory() const {
      return {static_cast<std::byte*>(device.data()), device.size(), false};
    }
  };
  [[nodiscard]] bool staged() const noexcept { return static_cast<bool>(buffers_.front().device); }
  [[nodiscard]] SlotMemory next_buffer(StreamRef on);

  const CaptureEnvironment environment_;
  CaptureStreams& streams_;
  SourceRows& rows_;
  std::array<GatherBuffer, 2> buffers_;  ///< of `ring_kernel`, in turn; the training thread's
  std::size_t buffer_ = 0;               ///< the one that was gathered into last
};

}  // namespace millrace::capture
