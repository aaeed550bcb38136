#include "ordering/ledger_state.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace millrace {

ordering::Slot* Ledger::State::tenant(StreamId stream) const {
  Slot* slot = slots.find(stream.slot);
  return slot != nullptr && slot->generation == stream.generation ? slot : nullptr;
}

ordering::Slot& Ledger::State::open_slot(StreamId stream) const {
  Slot* slot = tenant(stream);
  if (slot == nullptr || slot->phase != Phase::open) {
    throw std::invalid_argument{"Ledger: the stream is not open"};
  }
  return *slot;
}

void Ledger::State::declare(std::uint32_t index, StreamTraits traits) {
  slots[index].traits = traits;
  std::erase(blocking, index);
  if (traits.legacy || !traits.blocking) return;
  blocking.push_back(index);
  legacy_independent |= traits.independent;
}

Marker Ledger::State::within(const Slot& slot, Marker marker) {
  return slot.phase == Phase::closed ? std::min(marker, slot.next.load()) : marker;
}

bool Ledger::State::completed(Point point) const {
  if (point.marker == 0) return true;
  const Slot* slot = slots.find(point.stream.slot);
  if (slot == nullptr) return false;
  const std::uint32_t generation = slot->generation;
  if (generation != point.stream.generation) return generation > point.stream.generation;
  if (slot->completed >= within(*slot, point.marker)) return true;
  return slot->generation != generation;  // became vacant while we looked
}

Frontier Ledger::State::outstanding(Frontier frontier) const {
  frontier.drop_if([&](Point point) { return completed(point); });
  return frontier;
}

// A closed stream's last marker covers whatever number a free there was given before it closed.
Frontier Ledger::State::beyond_last(const Frontier& frontier) const {
  Frontier all = frontier;
  for (const Point point : frontier) {
    const Slot* slot = tenant(point.stream);
    if (slot != nullptr && slot->phase == Phase::closed && point.marker >= slot->next) {
      all.advance({point.stream, std::numeric_limits<Marker>::max()});
    }
  }
  return all;
}

void Ledger::State::order(Slot& slot, const Frontier& after) {
  slot.frontier.join(after);
  slot.frontier.drop_if([&](Point point) { return completed(point); });
}

// What an operation enqueued on the stream now is ordered after, as far as markers tell.
Frontier Ledger::State::before(const Slot& slot) const {
  Frontier all = slot.frontier;
  for_each_implicit(slot, [&](std::uint32_t, const Slot& other) { all.join(other.frontier); });
  return outstanding(std::move(all));
}

std::vector<Point> Ledger::State::take_implied(const Slot& slot) {
  std::vector<Point> points;
  for_each_implicit(slot, [&](std::uint32_t index, Slot& other) {
    points.push_back({other.id(index), other.next++});
  });
  return points;
}

const ordering::Published* Ledger::State::find(Point marker) const {
  const Slot* slot = tenant(marker.stream);
  if (slot == nullptr) return nullptr;
  const auto it = std::ranges::lower_bound(slot->markers, marker.marker, {}, &Published::marker);
  if (it != slot->markers.end() && it->marker == marker.marker) return &*it;
  const auto old = std::ranges::find(slot->withdrawn, marker.marker, &Published::marker);
  return old != slot->withdrawn.end() ? &*old : nullptr;
}

void Ledger::State::insert(Point point, const Published& published) {
  Slot* slot = tenant(point.stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return;
  const Marker marker = within(*slot, point.marker);
  const auto at = std::ranges::upper_bound(slot->markers, marker, {}, &Published::marker);
  slot->markers.insert(at, published)->marker = marker;
  with_markers.insert(point.stream.slot);
}

void Ledger::State::erase(std::uint32_t index, std::vector<Published>::iterator marker) {
  slots[index].markers.erase(marker);
  if (slots[index].markers.empty()) with_markers.erase(index);
}

std::vector<MarkerToken> Ledger::State::complete(const Frontier& frontier) {
  Frontier all = frontier;
  for (const Point point : frontier) {
    const Published* marker = find(point);
    if (marker != nullptr && marker->own) all.join(*marker->snapshot);
  }
  std::vector<MarkerToken> done;
  for (const Point point : all) raise(point, done);
  return done;
}

// Markers that stand for others as well give their token back with their own stream.
void Ledger::State::raise(Point point, std::vector<MarkerToken>& done) {
  Slot* slot = tenant(point.stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return;
  const Marker limit = slot->phase == Phase::open ? slot->next - 1 : slot->next.load();
  const Marker reached = std::min(point.marker, limit);
  if (reached > slot->completed) {
    slot->completed = reached;
    completed_frontier.advance({slot->id(point.stream.slot), reached});
  }

  const auto passed = [&](const Published& p) { return p.marker <= slot->completed; };
  const auto end = std::ranges::find_if_not(slot->markers, passed);
  for (auto it = slot->markers.begin(); it != end; ++it) {
    if (it->own) done.push_back(it->token);
  }
  slot->markers.erase(slot->markers.begin(), end);
  if (slot->markers.empty()) with_markers.erase(point.stream.slot);
  std::erase_if(slot->withdrawn, passed);
  vacate_if_complete(point.stream.slot);
}

void Ledger::State::vacate_if_complete(std::uint32_t index) {
  Slot& slot = slots[index];
  if (slot.phase != Phase::closed || !slot.markers.empty() || slot.completed < slot.next) return;
  slot.withdrawn.clear();
  --tracked;
  slot.completed = std::numeric_limits<Marker>::max();
  completed_frontier.advance({slot.id(index), slot.completed});
  if (slot.generation == std::numeric_limits<std::uint32_t>::max()) return;  // never let again
  ++slot.generation;  // first: `completed` looks without the lock
  slot.phase = Phase::vacant;
  slot.completed = 0;
  completed_frontier.advance({slot.id(index), 0});
  slot.next = 1;
  vacant.push_back(index);
}

}  // namespace millrace
