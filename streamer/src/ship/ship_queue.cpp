#include "ship/ship_queue.hpp"

#include <limits>
#include <utility>

namespace millrace::ship {

StepBatch ShipQueue::push(Shipment shipment) {
  StepBatch no_room;
  add(std::move(shipment), room_, no_room);
  return no_room;
}

void ShipQueue::push_all(Shipment shipment) {
  StepBatch none;
  add(std::move(shipment), std::numeric_limits<std::size_t>::max(), none);
}

void ShipQueue::add(Shipment shipment, std::size_t room, StepBatch& no_room) {
  // Tickets only grow, so the newest one is valid for all merged steps.
  recaptures_ = shipment.recaptures;
  captured_.add(shipment.captured);
  if (rows_.empty()) return rows_.begin(std::move(shipment.batch));
  coalesced_ += rows_.add(shipment.batch, room, no_room);
}

void ShipQueue::clear() {
  rows_ = {};
  captured_ = {};
}

std::optional<MergedSteps> ShipQueue::pop() {
  if (rows_.empty()) return std::nullopt;
  const Nanoseconds oldest = captured_.oldest();
  return MergedSteps{{.batch = rows_.take(), .recaptures = recaptures_, .captured = oldest},
                     std::exchange(captured_, {})};
}

}  // namespace millrace::ship
