#include "millrace/ordering/ledger.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ordering/ledger_state.hpp"

namespace millrace {

using ordering::Phase;
using ordering::Published;
using ordering::Slot;

namespace {

// A waiter may still be between its call and its join when the event is recorded again.
constexpr std::size_t kWithdrawnKept = 64;

std::vector<Published>::iterator find(std::vector<Published>& markers, Marker number) {
  const auto it = std::ranges::lower_bound(markers, number, {}, &Published::marker);
  return it != markers.end() && it->marker == number ? it : markers.end();
}

}  // namespace

Frontier PendingRecord::snapshot() const {
  Frontier all = before;
  all.advance(point);
  for (const Point other : implied) all.advance(other);
  return all;
}

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

StreamId Ledger::open(StreamTraits traits) {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  if (traits.legacy && state.legacy) {
    throw std::invalid_argument{"Ledger: the legacy stream is open already"};
  }
  std::uint32_t index = 0;
  if (state.vacant.empty()) {
    index = state.slots.add();
  } else {
    index = state.vacant.back();
    state.vacant.pop_back();
  }
  Slot& slot = state.slots[index];
  slot.phase = Phase::open;
  ++state.tracked;
  if (traits.legacy) state.legacy = index;
  state.declare(index, traits);
  return slot.id(index);
}

void Ledger::set_traits(StreamId stream, StreamTraits traits) {
  const std::lock_guard lock{state_->mutex};
  if (state_->open_slot(stream).traits.legacy != traits.legacy) {
    throw std::invalid_argument{"Ledger: a stream does not become the legacy stream"};
  }
  state_->declare(stream.slot, traits);
}

void Ledger::close(StreamId stream, Marker last) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  if (last >= slot.next) throw std::invalid_argument{"Ledger: no such marker on the stream"};
  if (last != 0) {
    slot.next = slot.markers.empty() ? last : std::max(last, slot.markers.back().marker);
  }
  slot.phase = Phase::closed;
  slot.frontier = {};
  std::erase(state_->blocking, stream.slot);
  if (slot.traits.legacy) state_->legacy.reset();
  state_->vacate_if_complete(stream.slot);
}

bool Ledger::is_open(StreamId stream) const {
  const Slot* slot = state_->tenant(stream);
  return slot != nullptr && slot->phase == Phase::open;
}

StreamTraits Ledger::traits(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  const Slot* slot = state_->tenant(stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return {};
  StreamTraits traits = slot->traits;
  traits.independent |= traits.legacy && state_->legacy_independent;
  return traits;
}

Marker Ledger::next(StreamId stream) const {
  const Slot* slot = state_->slots.find(stream.slot);
  if (slot == nullptr || !stream.valid() || slot->generation < stream.generation) {
    throw std::invalid_argument{"Ledger: there never was such a stream"};
  }
  return slot->generation == stream.generation ? slot->next.load() : 0;
}

PendingRecord Ledger::begin_record(StreamId stream) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  return {{stream, slot.next++}, state_->before(slot), state_->take_implied(slot)};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a record is published once
void Ledger::publish_record(PendingRecord record, MarkerToken token) {
  const auto snapshot = std::make_shared<const Frontier>(record.snapshot());
  const std::lock_guard lock{state_->mutex};
  state_->insert(record.point, {record.point.marker, token, true, snapshot});
  Slot* slot = state_->tenant(record.point.stream);
  if (slot == nullptr || slot->phase != Phase::open || record.implied.empty()) return;
  state_->order(*slot, *snapshot);
  if (state_->legacy_independent) return;
  for (const Point point : record.implied) {
    state_->insert(point, {point.marker, token, false, snapshot});
  }
}

void Ledger::withdraw(Point marker) {
  const std::lock_guard lock{state_->mutex};
  Slot* slot = state_->tenant(marker.stream);
  if (slot == nullptr) return;
  const auto it = find(slot->markers, marker.marker);
  if (it == slot->markers.end() || !it->own) return;
  if (slot->withdrawn.size() == kWithdrawnKept) slot->withdrawn.erase(slot->withdrawn.begin());
  const auto snapshot = slot->withdrawn.emplace_back(*it).snapshot;
  state_->erase(marker.stream.slot, it);
  for (const Point point : *snapshot) {
    Slot* other = state_->tenant(point.stream);
    if (other == nullptr) continue;
    const auto implied = find(other->markers, point.marker);
    if (implied != other->markers.end() && implied->snapshot == snapshot) {
      state_->erase(point.stream.slot, implied);
    }
  }
}

void Ledger::join(StreamId waiter, Point marker) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(waiter);
  if (const Published* published = state_->find(marker)) state_->order(slot, *published->snapshot);
}

void Ledger::join(StreamId waiter, const Frontier& frontier) {
  const std::lock_guard lock{state_->mutex};
  state_->order(state_->open_slot(waiter), frontier);
}

Frontier Ledger::snapshot(Point marker) const {
  const std::lock_guard lock{state_->mutex};
  const Published* published = state_->find(marker);
  return published == nullptr ? Frontier{} : state_->outstanding(*published->snapshot);
}

Frontier Ledger::begin_synchronize(StreamId stream) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  Frontier all = state_->outstanding(slot.frontier);
  all.advance({stream, slot.next++});
  return all;
}

Frontier Ledger::begin_synchronize() {
  const std::lock_guard lock{state_->mutex};
  Frontier all;
  for (std::uint32_t index = 0; index < state_->slots.size(); ++index) {
    Slot& slot = state_->slots[index];
    if (slot.phase == Phase::vacant) continue;
    const Marker reached = slot.phase == Phase::open ? slot.next++ : slot.next.load();
    all.advance({slot.id(index), reached});
  }
  return all;
}

std::vector<MarkerToken> Ledger::complete(Point marker) { return complete(Frontier{marker}); }

std::vector<MarkerToken> Ledger::complete(const Frontier& frontier) {
  const std::lock_guard lock{state_->mutex};
  return state_->complete(frontier);
}

bool Ledger::ordered(Point point, StreamId user) const {
  if (completed(point)) return true;
  const Slot* slot = state_->tenant(user);
  if (slot == nullptr || slot->phase != Phase::open) return false;
  if (point.stream == user) return true;

  const std::lock_guard lock{state_->mutex};
  if (const Slot* other = state_->tenant(point.stream)) {
    point.marker = State::within(*other, point.marker);
  }
  bool covered = slot->frontier.covers(point);
  state_->for_each_implicit(*slot, [&](std::uint32_t index, const Slot& other) {
    covered = covered || other.id(index) == point.stream || other.frontier.covers(point);
  });
  return covered || completed(point);  // dropped from the frontier while we waited for the lock
}

bool Ledger::completed(Point point) const { return state_->completed(point); }

std::optional<WaitableMarker> Ledger::earliest_covering(Point point) const {
  const std::lock_guard lock{state_->mutex};
  const Slot* slot = state_->tenant(point.stream);
  if (slot == nullptr) return std::nullopt;
  const Marker from = State::within(*slot, point.marker);
  const auto it = std::ranges::lower_bound(slot->markers, from, {}, &Published::marker);
  if (it == slot->markers.end()) return std::nullopt;
  return WaitableMarker{{point.stream, it->marker}, it->token};
}

std::vector<WaitableMarker> Ledger::oldest_outstanding() const {
  const std::lock_guard lock{state_->mutex};
  std::vector<WaitableMarker> oldest;
  for (const std::uint32_t index : state_->with_markers) {
    const Slot& slot = state_->slots[index];
    const auto it = std::ranges::find_if(slot.markers, &Published::own);
    if (it != slot.markers.end()) oldest.push_back({{slot.id(index), it->marker}, it->token});
  }
  return oldest;
}

Frontier Ledger::frontier(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  const Slot& slot = state_->open_slot(stream);
  Frontier all = state_->before(slot);
  all.advance({stream, slot.next});
  state_->for_each_implicit(slot, [&](std::uint32_t index, const Slot& other) {
    all.advance({other.id(index), other.next});
  });
  return state_->beyond_last(all);
}

Frontier Ledger::completed_frontier() const {
  const std::lock_guard lock{state_->mutex};
  return state_->completed_frontier;
}

std::size_t Ledger::tracked_streams() const {
  const std::lock_guard lock{state_->mutex};
  return state_->tracked;
}

}  // namespace millrace
