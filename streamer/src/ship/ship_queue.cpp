#include "ship/ship_queue.hpp"

#include <utility>

namespace millrace::ship {

void ShipQueue::push(Shipment shipment) {
  if (!backlog_.empty()) return into_backlog(shipment);
  waiting_bytes_ += bytes_of(shipment.batch);
  waiting_.push_back(std::move(shipment));
}

bool ShipQueue::coalesce(const Shipment& shipment) {
  for (const Shipment& waiting : std::exchange(waiting_, {})) into_backlog(waiting);
  waiting_bytes_ = 0;
  if (!backlog_.empty() && backlog_.bytes() + shipment.batch.bytes() > room_) return false;
  into_backlog(shipment);
  return true;
}

void ShipQueue::clear() {
  waiting_.clear();
  waiting_bytes_ = 0;
  backlog_ = {};
}

void ShipQueue::into_backlog(const Shipment& shipment) {
  if (backlog_.empty()) {
    captured_ = shipment.captured;
    backlog_.reserve(2 * room_ + shipment.batch.bytes());  // old rows are as many as new ones
  }
  recaptures_ = shipment.recaptures;
  coalesced_ += backlog_.add(shipment.batch);
}

std::optional<Shipment> ShipQueue::pop() {
  if (!waiting_.empty()) {
    Shipment oldest = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= bytes_of(oldest.batch);
    popped_ = 1;
    return oldest;
  }
  if (backlog_.empty()) return std::nullopt;
  popped_ = backlog_.steps();
  return Shipment{.batch = backlog_.take(), .recaptures = recaptures_, .captured = captured_};
}

std::uint64_t ShipQueue::rows() const noexcept {
  std::uint64_t rows = backlog_.rows();
  for (const Shipment& shipment : waiting_) rows += shipment.batch.size();
  return rows;
}

}  // namespace millrace::ship
