#include "millrace/ordering/ledger.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include "ordering/slot_table.hpp"

namespace millrace {

using ordering::Phase;
using ordering::Published;
using ordering::Slot;

namespace {

// A waiter may still be between its call and its join when the event is recorded again.
constexpr std::size_t kWithdrawnKept = 64;

}  // namespace

Frontier PendingRecord::snapshot() const {
  Frontier all = before;
  all.advance(point);
  for (const Point other : implied) all.advance(other);
  return all;
}

struct Ledger::State {
  mutable std::mutex mutex;  // of everything but the atomic members of slots
  ordering::SlotTable slots;
  std::vector<std::uint32_t> vacant;
  std::set<std::uint32_t> with_markers;
  std::vector<std::uint32_t> blocking;  // open ones, without the legacy stream
  std::optional<std::uint32_t> legacy;
  bool legacy_independent = false;
  Frontier behind_legacy;  // what a new blocking stream is ordered after
  std::size_t tracked = 0;

  Slot* tenant(StreamId stream) const {
    Slot* slot = slots.find(stream.slot);
    return slot != nullptr && slot->generation == stream.generation ? slot : nullptr;
  }

  Slot& open_slot(StreamId stream) const {
    Slot* slot = tenant(stream);
    if (slot == nullptr || slot->phase != Phase::open) {
      throw std::invalid_argument{"Ledger: the stream is not open"};
    }
    return *slot;
  }

  bool completed(Point point) const {
    if (point.marker == 0) return true;
    const Slot* slot = slots.find(point.stream.slot);
    if (slot == nullptr) return false;
    const std::uint32_t generation = slot->generation;
    if (generation != point.stream.generation) return generation > point.stream.generation;
    return slot->completed >= within(*slot, point.marker);
  }

  // Nothing follows the last marker of a closed stream.
  static Marker within(const Slot& slot, Marker marker) {
    return slot.phase == Phase::closed ? std::min(marker, slot.next.load()) : marker;
  }

  Frontier outstanding(Frontier frontier) const {
    frontier.drop_if([&](Point point) { return completed(point); });
    return frontier;
  }

  void order(Slot& slot, const Frontier& after) {
    slot.frontier.join(after);
    slot.frontier.drop_if([&](Point point) { return completed(point); });
  }

  const Published* find(Point marker) const {
    const Slot* slot = tenant(marker.stream);
    if (slot == nullptr) return nullptr;
    const auto it = std::ranges::lower_bound(slot->markers, marker.marker, {}, &Published::marker);
    if (it != slot->markers.end() && it->marker == marker.marker) return &*it;
    const auto old = std::ranges::find(slot->withdrawn, marker.marker, &Published::marker);
    return old != slot->withdrawn.end() ? &*old : nullptr;
  }

  void insert(Point point, Published published) {
    Slot* slot = tenant(point.stream);
    if (slot == nullptr || slot->phase == Phase::vacant) return;
    published.marker = within(*slot, published.marker);
    const auto at =
        std::ranges::upper_bound(slot->markers, published.marker, {}, &Published::marker);
    slot->markers.insert(at, std::move(published));
    with_markers.insert(point.stream.slot);
  }

  void erase_marker(std::uint32_t index, std::vector<Published>::iterator it) {
    slots[index].markers.erase(it);
    if (slots[index].markers.empty()) with_markers.erase(index);
  }

  void raise(Point point, std::vector<MarkerToken>& done);
  void vacate_if_complete(std::uint32_t index);
  std::vector<MarkerToken> complete(const Frontier& frontier);
};

// Marks `point` complete. Tokens of markers that stand for others as well go with their own.
void Ledger::State::raise(Point point, std::vector<MarkerToken>& done) {
  Slot* slot = tenant(point.stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return;
  const Marker limit = slot->phase == Phase::open ? slot->next - 1 : slot->next.load();
  const Marker reached = std::min(point.marker, limit);
  if (reached > slot->completed) slot->completed = reached;
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
  slot.phase = Phase::vacant;
  --tracked;
  if (slot.generation == std::numeric_limits<std::uint32_t>::max()) return;  // never let again
  ++slot.generation;
  slot.completed = 0;
  slot.next = 1;
  vacant.push_back(index);
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
  slot.traits = traits;
  slot.phase = Phase::open;
  ++state.tracked;
  if (traits.legacy) {
    state.legacy = index;
  } else if (traits.blocking) {
    state.blocking.push_back(index);
    state.legacy_independent |= traits.independent;
    state.order(slot, state.behind_legacy);
  }
  return slot.id(index);
}

void Ledger::close(StreamId stream, Marker last) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  if (last >= slot.next) throw std::invalid_argument{"Ledger: no such marker on the stream"};
  if (last != 0)
    slot.next = slot.markers.empty() ? last : std::max(last, slot.markers.back().marker);
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
  if (slot == nullptr || slot->phase == Phase::vacant) {
    throw std::invalid_argument{"Ledger: nothing is known of this stream"};
  }
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
  PendingRecord record;
  record.point = {stream, slot.next++};
  record.before = slot.frontier;
  if (slot.traits.legacy) {
    for (const std::uint32_t index : state_->blocking) {
      Slot& other = state_->slots[index];
      record.before.join(other.frontier);
      record.implied.push_back({other.id(index), other.next++});
    }
  }
  record.before = state_->outstanding(std::move(record.before));
  return record;
}

void Ledger::publish_record(PendingRecord record, MarkerToken token) {
  const auto snapshot = std::make_shared<const Frontier>(record.snapshot());
  const std::lock_guard lock{state_->mutex};
  state_->insert(record.point, {record.point.marker, token, true, snapshot});
  Slot* slot = state_->tenant(record.point.stream);
  if (slot == nullptr || slot->phase != Phase::open || !slot->traits.legacy) return;

  state_->order(*slot, *snapshot);
  state_->behind_legacy.join(*snapshot);
  state_->behind_legacy = state_->outstanding(std::move(state_->behind_legacy));
  for (const std::uint32_t index : state_->blocking) state_->order(state_->slots[index], *snapshot);
  if (state_->legacy_independent) return;
  for (const Point point : record.implied) {
    state_->insert(point, {point.marker, token, false, snapshot});
  }
}

void Ledger::withdraw(Point marker) {
  const std::lock_guard lock{state_->mutex};
  Slot* slot = state_->tenant(marker.stream);
  if (slot == nullptr) return;
  const auto find = [](Slot& in, Marker number) {
    const auto it = std::ranges::lower_bound(in.markers, number, {}, &Published::marker);
    return it != in.markers.end() && it->marker == number ? it : in.markers.end();
  };
  const auto it = find(*slot, marker.marker);
  if (it == slot->markers.end() || !it->own) return;
  const auto snapshot = it->snapshot;
  if (slot->withdrawn.size() == kWithdrawnKept) slot->withdrawn.erase(slot->withdrawn.begin());
  slot->withdrawn.push_back(std::move(*it));
  state_->erase_marker(marker.stream.slot, it);
  for (const Point point : *snapshot) {
    Slot* other = state_->tenant(point.stream);
    if (other == nullptr) continue;
    const auto implied = find(*other, point.marker);
    if (implied != other->markers.end() && implied->snapshot == snapshot) {
      state_->erase_marker(point.stream.slot, implied);
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
  if (const Slot* other = state_->tenant(point.stream)) {
    point.marker = State::within(*other, point.marker);
  }

  const std::lock_guard lock{state_->mutex};
  if (slot->frontier.covers(point)) return true;
  if (slot->traits.legacy) {
    return std::ranges::any_of(state_->blocking, [&](std::uint32_t index) {
      const Slot& other = state_->slots[index];
      return other.id(index) == point.stream || other.frontier.covers(point);
    });
  }
  return slot->traits.blocking && state_->legacy == point.stream.slot &&
         state_->tenant(point.stream) != nullptr;
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
  Frontier all = slot.frontier;
  all.advance({stream, slot.next});
  if (slot.traits.legacy) {
    for (const std::uint32_t index : state_->blocking) {
      const Slot& other = state_->slots[index];
      all.join(other.frontier);
      all.advance({other.id(index), other.next});
    }
  } else if (slot.traits.blocking && state_->legacy) {
    const Slot& legacy = state_->slots[*state_->legacy];
    all.advance({legacy.id(*state_->legacy), legacy.next});
  }
  return state_->outstanding(std::move(all));
}

Frontier Ledger::completed_frontier() const {
  const std::lock_guard lock{state_->mutex};
  Frontier all;
  for (std::uint32_t index = 0; index < state_->slots.size(); ++index) {
    const Slot& slot = state_->slots[index];
    const bool former_tenants = slot.generation > 1;
    if (slot.completed > 0 || former_tenants) all.advance({slot.id(index), slot.completed});
  }
  return all;
}

std::size_t Ledger::tracked_streams() const {
  const std::lock_guard lock{state_->mutex};
  return state_->tracked;
}

}  // namespace millrace
