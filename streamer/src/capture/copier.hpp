#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/delivery_queue.hpp"
#include "capture/gatherer.hpp"
#include "capture/shared_parts.hpp"

namespace millrace::capture {

/**
 * @brief Brings the rows of a slot to the host and delivers them to the receiver.
 *
 * Used by the copier's actor only. Rows that cannot be delivered become dirty: their slot is
 * returned, or their ids become pending again.
 */
class Copier {
 public:
  /** @brief All members outlive the copier. */
  struct Parts {
    Gatherer& gatherer;
    CaptureStreams& streams;
    SharedParts& shared;
  };
  Copier(const RowCapture::Source& source, const CaptureEnvironment& environment,
         const CaptureOptions& options, const Parts& parts);

  /** @brief Delivers a step. Rows that cannot be delivered become dirty. */
  void handle(const Delivery& delivery) noexcept;

 private:
  void deliver(const Delivery& delivery);
  [[nodiscard]] bool bring(Slot& slot);
  void wait_for(Slot& slot);
  void deliver_rows(const Delivery& delivery, Slot& slot);
  [[nodiscard]] CapturedRows rows_of(const Delivery& delivery, Slot& slot);
  void return_rows(Slot& slot, const CapturedRows& rows, std::uint64_t count);
  void lose(const Delivery& delivery);
  [[nodiscard]] bool offer(const CapturedRows& rows);
  [[nodiscard]] CapturedRows step_of(const Delivery& delivery, std::uint64_t missing) const;
  [[nodiscard]] bool copies_out() const { return options_.mode == CaptureMode::mapped; }

  const RowCapture::Source& source_;
  const CaptureEnvironment environment_;
  const CaptureOptions& options_;
  Gatherer& gatherer_;
  CaptureStreams& streams_;
  SharedParts& shared_;
  std::vector<std::byte> copied_out_;  ///< `mapped`: the rows, while the slot is filled again
};

}  // namespace millrace::capture
