#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "millrace/streamer/shipper.hpp"
#include "ship/backlog.hpp"
#include "ship/capture_times.hpp"

namespace millrace::ship {

/** @brief The next batch for a sink: all waiting steps, merged. */
struct MergedSteps {
  Shipment shipment;
  CaptureTimes captured;  ///< capture times of the merged steps
};

/**
 * @brief The steps that wait for a sink, merged on arrival: the newest record of each row, with the
 * commit of the newest step. A slow sink gets no stale values, and its lag is the time that it
 * needs for the rows that have changed meanwhile. Not thread-safe.
 */
class ShipQueue {
 public:
  /** @param room  maximum bytes of rows; the first waiting step may have more */
  explicit ShipQueue(std::size_t room) : room_(room) {}

  /** @brief Returns whether all rows of a step fit, even if no row replaces a waiting one. */
  [[nodiscard]] bool fits(const StepBatch& batch) const noexcept {
    return empty() || rows_.bytes() + batch.bytes() <= room_;
  }
  /** @brief Adds a step. @return the rows that did not fit and were not added */
  [[nodiscard]] StepBatch push(Shipment shipment);
  /** @brief Adds a step without regard to the room. */
  void push_all(Shipment shipment);

  void clear();

  [[nodiscard]] std::optional<MergedSteps> pop();

  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return rows_.bytes(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return rows_.steps(); }
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_.rows(); }
  [[nodiscard]] std::uint64_t coalesced_rows() const noexcept { return coalesced_; }
  /** @brief Returns the capture time of the first waiting step. A step must be waiting. */
  [[nodiscard]] Nanoseconds oldest() const noexcept { return captured_.oldest(); }

 private:
  void add(Shipment shipment, std::size_t room, StepBatch& no_room);

  const std::size_t room_;
  Backlog rows_;
  CaptureTimes captured_;
  std::uint64_t recaptures_ = 0;  ///< ticket of the newest step
  std::uint64_t coalesced_ = 0;
};

}  // namespace millrace::ship
