#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/capture_streams.hpp"
#include "capture/gatherer.hpp"
#include "capture/shared_parts.hpp"
#include "tracking/picked_rows.hpp"

namespace millrace::capture {

/**
 * @brief Keeps the bitmap of the dirty rows: sets bits for what could not be delivered, and takes
 *        them out again for a gather.
 *
 * The training thread only. Every change of the bitmap gets its number in the protocol.
 */
class DirtyMarker {
 public:
  /** @param bitmap  of the tracker; all of them outlive this */
  DirtyMarker(const CaptureEnvironment& environment, DirtyRows& bitmap, Gatherer& gatherer,
              SharedParts& shared, CaptureStreams& streams);

  /** @brief Marks what others asked for, and slots that could not be delivered; failures are
   * counted, and tried again the next time. */
  void apply_pending(StreamRef on);
  /** @brief Marks the rows of a slot that is returning. @throws DeviceError, out_of_memory */
  void mark_returned(Slot& slot, StreamRef on);
  /** @brief Marks a list. If that fails, all rows become dirty.
   *  @param rows  expected number, for models */
  void mark_dirty(const RowList& list, double rows, StreamRef on);

  /** @brief Takes rows out of the bitmap. @param most  how many
   *  @return false on failure: the rows that were taken, if any, must be marked again */
  [[nodiscard]] bool pick(PickedRows& picked, std::size_t most, StreamRef on);
  /** @brief Picked rows as a gather takes them; their number as it is expected. */
  [[nodiscard]] GatheredRows gathered(const PickedRows& picked);

  /** @brief Where nothing is computed, predicts the header of a gather. */
  void expect(Slot& slot, const GatheredRows& rows);
  [[nodiscard]] const DirtyRows& bits() const noexcept { return bitmap_; }

 private:
  void mark_all(StreamRef on);

  const CaptureEnvironment environment_;
  DirtyRows& bitmap_;
  Gatherer& gatherer_;
  SharedParts& shared_;
  CaptureStreams& streams_;
  double modelled_missing_ = 0;  ///< bits that would be set, where nothing is computed
};

}  // namespace millrace::capture
