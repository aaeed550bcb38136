#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "millrace/streamer/shipper.hpp"
#include "ship/backlog.hpp"

namespace millrace::ship {

/** @brief Steps that wait to be delivered, no more bytes of them than there is room for: but for
 *         one. Not thread-safe. */
class ShipQueue {
 public:
  explicit ShipQueue(std::size_t room) : room_(room) {}

  [[nodiscard]] bool fits(const StepBatch& batch) const noexcept {
    return empty() || bytes() + bytes_of(batch) <= room_;
  }
  void push(Shipment shipment);
  /** @brief Makes those that wait one, and adds it. @return whether there is room for it now; if
   *         not it was not added */
  bool coalesce(const Shipment& shipment);

  void clear();

  /** @brief The oldest, or all of those that were made one. */
  [[nodiscard]] std::optional<Shipment> pop();

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty() && backlog_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return waiting_bytes_ + backlog_.bytes(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return waiting_.size() + backlog_.steps(); }
  [[nodiscard]] std::uint64_t rows() const noexcept;
  [[nodiscard]] std::uint64_t coalesced_rows() const noexcept { return coalesced_; }
  /** @brief How many steps the last one popped was made of. */
  [[nodiscard]] std::uint64_t popped_steps() const noexcept { return popped_; }

 private:
  /** Marks have to be kept as well. */
  static std::size_t bytes_of(const StepBatch& batch) noexcept {
    return batch.bytes() + sizeof(Shipment);
  }
  void into_backlog(const Shipment& shipment);

  const std::size_t room_;
  std::deque<Shipment> waiting_;
  std::size_t waiting_bytes_ = 0;
  Backlog backlog_;               ///< behind those; empty unless they are
  std::uint64_t recaptures_ = 0;  ///< of the newest in it
  Nanoseconds captured_{0};       ///< the oldest in it
  std::uint64_t coalesced_ = 0, popped_ = 0;
};

}  // namespace millrace::ship
