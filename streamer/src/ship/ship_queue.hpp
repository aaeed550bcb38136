#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "millrace/streamer/shipper.hpp"
#include "ship/backlog.hpp"
#include "ship/capture_times.hpp"

namespace millrace::ship {

/** @brief What a sink is given next: all steps that waited, as one. */
struct MergedSteps {
  Shipment shipment;
  CaptureTimes captured;  ///< of each of them
};

/**
 * @brief Steps that wait for a sink, merged as they come: the newest record of each row, with the
 *        commit of the newest step. So a slow sink gets no stale values, and its lag is the time
 *        that it needs for the rows that have changed meanwhile. Not thread-safe.
 */
class ShipQueue {
 public:
  /** @param room  bytes of rows; the first step that waits may have more */
  explicit ShipQueue(std::size_t room) : room_(room) {}

  /** @brief Whether all rows of a step have room, also if none of them is there yet. */
  [[nodiscard]] bool fits(const StepBatch& batch) const noexcept {
    return empty() || rows_.bytes() + batch.bytes() <= room_;
  }
  /** @brief Adds a step. @return its rows for which there is no room: they are not in it */
  [[nodiscard]] StepBatch push(Shipment shipment);
  /** @brief Adds a step, whatever room it needs. */
  void push_all(Shipment shipment);

  void clear();

  [[nodiscard]] std::optional<MergedSteps> pop();

  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return rows_.bytes(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return rows_.steps(); }
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_.rows(); }
  [[nodiscard]] std::uint64_t coalesced_rows() const noexcept { return coalesced_; }
  /** @brief When the first step that waits was captured; there is one. */
  [[nodiscard]] Nanoseconds oldest() const noexcept { return captured_.oldest(); }

 private:
  void add(Shipment shipment, std::size_t room, StepBatch& no_room);

  const std::size_t room_;
  Backlog rows_;
  CaptureTimes captured_;
  std::uint64_t recaptures_ = 0;  ///< of the newest step
  std::uint64_t coalesced_ = 0;
};

}  // namespace millrace::ship
