#pragma once

#include <cstddef>

#include "capture/dirty_rows.hpp"
#include "millrace/streamer/change_tracker.hpp"
#include "tracking/picked_rows.hpp"

namespace millrace {

/**
 * @brief The rows that one consumer has not received: a bitmap on the device.
 *
 * Used only by the thread that uses the tables. The caller orders streams.
 */
class ChangeTracker::ChangedRows {
 public:
  ChangedRows(ModelContext& context, const EmbeddingBags& bags, std::uint32_t shift);

  /** @brief Call if rows could not be marked: all rows count as changed in the next read. */
  void lose() noexcept { all_ = true; }
  [[nodiscard]] bool lost() const noexcept { return all_; }
  /** @brief Makes the bitmap ready for a read on a stream. @throws DeviceError */
  void ready(StreamRef stream);

  [[nodiscard]] capture::DirtyRows& bits() noexcept { return bits_; }
  [[nodiscard]] const capture::DirtyRows& bits() const noexcept { return bits_; }

 private:
  capture::DirtyRows bits_;
  bool all_ = false;
};

}  // namespace millrace
