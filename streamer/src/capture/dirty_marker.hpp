#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/capture_streams.hpp"
#include "capture/gatherer.hpp"
#include "capture/shared_parts.hpp"
#include "tracking/picked_rows.hpp"

namespace millrace::capture {

/**
 * @brief Changes the bitmap of the dirty rows: sets bits of rows that could not be delivered, and
 * takes rows out for a gather.
 *
 * Used by the training thread only. Every change of the bitmap gets a number in DirtyProtocol.
 */
class DirtyMarker {
 public:
  /** @param bitmap  bitmap of the tracker; outlives this, like the others */
  DirtyMarker(const CaptureEnvironment& environment, DirtyRows& bitmap, Gatherer& gatherer,
              SharedParts& shared, CaptureStreams& streams);

  /**
   * @brief Marks requested rows, and the rows of returning slots. A failure is counted, and the
   * next call tries again.
   */
  void apply_pending(StreamRef on);
  /** @brief Marks the rows of a slot that is returning. @throws DeviceError, out_of_memory */
  void mark_returned(Slot& slot, StreamRef on);
  /** @brief Marks a list. If that fails, all rows become dirty.
   * @param rows  expected number, for cost models */
  void mark_dirty(const RowList& list, double rows, StreamRef on);

  /**
   * @brief Takes at most `most` rows out of the bitmap.
   * @return false on failure: rows that were taken must be marked again
   */
  [[nodiscard]] bool pick(PickedRows& picked, std::size_t most, StreamRef on);
  /** @brief Returns picked rows as input of a gather, with their expected number. */
  [[nodiscard]] GatheredRows gathered(const PickedRows& picked);

  /** @brief Predicts the header of a gather if nothing is computed (`ModelContext::cost_only`). */
  void expect(Slot& slot, const GatheredRows& rows);
  [[nodiscard]] const DirtyRows& bits() const noexcept { return bitmap_; }

 private:
  void mark_all(StreamRef on);

  const CaptureEnvironment environment_;
  DirtyRows& bitmap_;
  Gatherer& gatherer_;
  SharedParts& shared_;
  CaptureStreams& streams_;
  double modeled_missing_ = 0;  ///< expected number of set bits if nothing is computed
};

}  // namespace millrace::capture
