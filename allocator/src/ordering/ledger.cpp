#include "millrace/ordering/ledger.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ordering/open_streams.hpp"

namespace millrace {

using ordering::Phase;
using ordering::Published;
using ordering::Slot;
using ordering::SlotSet;
using SharedAnswer = ordering::SharedFrontier::Answer;

namespace {

// Number of withdrawn markers that are kept for threads between their wait and `join`.
constexpr std::size_t kWithdrawnKept = 64;

}  // namespace

Frontier PendingRecord::snapshot() const {
  Frontier all = before;
  all.advance(point);
  if (implied.marker != 0) all.advance(implied);
  return all;
}

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

StreamId Ledger::open(StreamTraits traits) {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  if (traits.legacy && state.group.legacy != SlotSet::kNone) {
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
  if (traits.legacy) {
    state.group.legacy = index;
    state.group.forget_published();
  }
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
  State& state = *state_;
  Slot& slot = state.open_slot(stream);
  if (last >= slot.count.next(state.group.epoch)) {
    throw std::invalid_argument{"Ledger: no such marker on the stream"};
  }
  state.group.leave(stream.slot);
  // No marker will be recorded anymore. A number beyond the last one would never be covered, and
  // memory that is freed there would wait forever. So the count goes back to the newest marker for
  // which others can wait. Later frees carry this number, and `within` replaces larger numbers of
  // earlier frees by it. Without `last` there may be work that no marker covers, so the count
  // stays.
  if (last != 0) slot.count.set(std::max(last, state.newest_waitable(slot)));
  slot.phase = Phase::closed;
  slot.frontier = {};
  slot.kept_points = 0;
  slot.shared.share(slot.frontier);
  if (slot.traits.legacy) state.group.legacy = SlotSet::kNone;
  state.progress.note(stream);  // points beyond its last marker may be complete now
  state.group.watch(stream.slot);
  state.vacate_if_complete(stream.slot);
}

bool Ledger::is_open(StreamId stream) const { return ordering::OpenStreams{*this}.is_open(stream); }

StreamTraits Ledger::traits(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  const Slot* slot = state_->tenant(stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return {};
  StreamTraits traits = slot->traits;
  traits.independent |= traits.legacy && state_->group.is_independent;
  return traits;
}

Marker Ledger::next(StreamId stream) const {
  const Slot* slot = state_->slots.find(stream.slot);
  if (slot == nullptr || !stream.valid() || slot->generation < stream.generation) {
    throw std::invalid_argument{"Ledger: there never was such a stream"};
  }
  const Marker next = slot->count.next(state_->group.epoch);
  return slot->generation == stream.generation ? next : 0;
}

Marker Ledger::next_if_open(StreamId stream) const noexcept {
  return ordering::OpenStreams{*this}.next(stream);
}

PendingRecord Ledger::begin_record(StreamId stream) {
  PendingRecord record;
  begin_record(stream, record);
  return record;
}

void Ledger::begin_record(StreamId stream, PendingRecord& record) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  record.point.stream = stream;
  record.point.marker = state_->take(slot);
  record.implied = {};
  if (slot.frontier.empty() && !state_->meets_legacy(slot)) {  // the usual case
    record.before.clear();
    return;
  }
  state_->collect_before(slot, record.before);
  record.implied = state_->take_implied(slot);
}

std::uint64_t Ledger::publish_record(PendingRecord&& record, MarkerToken token) {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  Slot* slot = state.tenant(record.point.stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return 0;
  const Published& published = state.insert(*slot, record, token);
  if (slot->phase == Phase::open && record.implied.marker != 0) {
    state.imply(record.point, published);
  }
  return published.serial;
}

// The event is used for another record, so no new waiter may get it: the marker leaves `markers`,
// which `earliest_covering` and polls read. But another thread may have made a stream wait for the
// event and not have called `join` yet. That wait orders, so the marker's snapshot is kept for
// `join` and for `complete`. Only the newest few are kept, to limit the memory. If the marker is
// gone when the thread calls `join`, an order is not noted, which only makes reuse rarer.
std::optional<MarkerToken> Ledger::withdraw(Point marker) {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  Slot* slot = state.tenant(marker.stream);
  const std::size_t at = slot == nullptr ? 0 : slot->markers.first_from(marker.marker);
  if (slot == nullptr || at == slot->markers.size()) return {};
  Published& published = slot->markers[at];
  if (published.marker != marker.marker) return {};
  const MarkerToken token = published.token;
  state.remove_alias(published.implied);
  if (slot->withdrawn.size() == kWithdrawnKept) slot->withdrawn.erase(slot->withdrawn.begin());
  slot->withdrawn.push_back(published);
  slot->markers.erase(at);
  state.count_outstanding(-1);
  if (slot->markers.empty()) state.with_markers.erase(marker.stream.slot);
  return token;
}

void Ledger::join(StreamId waiter, Point marker) {
  const std::lock_guard lock{state_->mutex};
  state_->open_slot(waiter);
  if (const Published* published = state_->find(marker)) {
    state_->wait(waiter.slot, published->snapshot);
  }
}

Frontier Ledger::snapshot(Point marker) const {
  const std::lock_guard lock{state_->mutex};
  const Published* published = state_->find(marker);
  if (published == nullptr) return {};
  Frontier all = state_->spelled_out(published->snapshot);
  state_->drop_completed(all);
  return all;
}

Frontier Ledger::begin_synchronize(StreamId stream) {
  const std::lock_guard lock{state_->mutex};
  Slot& slot = state_->open_slot(stream);
  Frontier all = slot.frontier;
  state_->drop_completed(all);
  all.advance({stream, state_->take(slot)});
  return all;
}

Frontier Ledger::begin_synchronize() {
  const std::lock_guard lock{state_->mutex};
  const State& state = *state_;
  Frontier all;
  for (std::uint32_t index = 0; index < state.slots.size(); ++index) {
    Slot& slot = state.slots[index];
    if (slot.phase == Phase::vacant) continue;
    const bool is_open = slot.phase == Phase::open;
    all.advance(
        {slot.id(index), is_open ? state_->take(slot) : slot.count.next(state.group.epoch)});
  }
  if (state.group.epoch != 0) all.advance({State::kGroup, state.group.epoch});
  return all;
}

std::vector<MarkerToken> Ledger::complete(Point marker) {
  std::vector<MarkerToken> done;
  complete(marker, done);
  return done;
}

std::vector<MarkerToken> Ledger::complete(const Frontier& frontier) {
  std::vector<MarkerToken> done;
  const std::lock_guard lock{state_->mutex};
  state_->complete(frontier, done);
  return done;
}

void Ledger::complete(Point marker, std::vector<MarkerToken>& done) {
  const std::lock_guard lock{state_->mutex};
  state_->complete(marker, done);
}

bool Ledger::ordered(Point point, StreamId user) const {
  if (completed(point)) return true;
  const Slot* slot = state_->tenant(user);
  if (slot == nullptr || slot->phase != Phase::open) return false;
  if (point.stream == user) return true;

  switch (state_->ordered_unlocked(point, user)) {
    case SharedAnswer::yes:
      return state_->tenant(user) == slot && slot->phase == Phase::open;
    case SharedAnswer::no:
      return completed(point);  // dropped from the frontier meanwhile
    case SharedAnswer::unknown:
      break;
  }
  const std::lock_guard lock{state_->mutex};
  if (state_->tenant(user) != slot || slot->phase != Phase::open) return state_->completed(point);
  return state_->ordered(point, *slot) || state_->completed(point);
}

bool Ledger::completed(Point point) const {
  const State::Answer answer = state_->completed_unlocked(point);
  if (answer != State::Answer::ask) return answer == State::Answer::yes;
  if (state_->known_complete(point)) return true;
  if (!state_->may_be_complete(point)) return false;
  const std::lock_guard lock{state_->mutex};
  return state_->completed(point);
}

std::uint64_t Ledger::epoch() const noexcept {
  return state_->progress.count() + state_->waits.load(std::memory_order_acquire);
}

bool Ledger::completed_since(std::uint64_t& seen, std::vector<StreamId>& streams) const {
  const std::size_t before = streams.size();
  if (!state_->progress.read(seen, streams)) return false;
  const auto appended = streams.begin() + static_cast<std::ptrdiff_t>(before);
  // Progress of the group concerns all blocking streams, which the list does not name.
  if (std::find(appended, streams.end(), State::kGroup) == streams.end()) return true;
  streams.resize(before);
  return false;
}

std::uint64_t Ledger::newest_serial() const noexcept {
  return state_->serial.load(std::memory_order_acquire);
}

std::size_t Ledger::outstanding_markers() const noexcept {
  return state_->outstanding_markers.load(std::memory_order_relaxed);
}

std::size_t Ledger::streams_in_flight() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->with_markers.size();
}

std::optional<WaitableMarker> Ledger::earliest_covering(Point point) const {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  Slot* slot = state.tenant(point.stream);
  if (slot == nullptr) return std::nullopt;
  point.marker = state.within(*slot, point.marker);
  const std::size_t at = slot->markers.first_from(point.marker);
  const Published* own = at == slot->markers.size() ? nullptr : &slot->markers[at];
  Marker stands_for = 0;
  const Published* implied = state.first_implied(*slot, point, stands_for);
  if (implied != nullptr && (own == nullptr || stands_for < own->marker)) {
    return WaitableMarker{{point.stream, stands_for}, implied->token, implied->serial};
  }
  if (own == nullptr) return std::nullopt;
  return WaitableMarker{{point.stream, own->marker}, own->token, own->serial};
}

std::vector<WaitableMarker> Ledger::oldest_outstanding() const {
  std::vector<WaitableMarker> oldest;
  std::uint32_t slot = 0;
  oldest_outstanding(slot, ~std::size_t{0}, oldest);
  return oldest;
}

void Ledger::oldest_outstanding(std::uint32_t& slot, std::size_t most,
                                std::vector<WaitableMarker>& oldest) const {
  const std::lock_guard lock{state_->mutex};
  const State& state = *state_;
  for (; most > 0; --most) {
    const std::uint32_t index = state.with_markers.next(slot);
    slot = index == SlotSet::kNone ? 0 : index + 1;
    if (index == SlotSet::kNone) return;
    const Published& first = state.slots[index].markers[0];
    WaitableMarker& marker = oldest.emplace_back();
    marker.point = {state.slots[index].id(index), first.marker};
    marker.token = first.token;
    marker.serial = first.serial;
  }
}

std::optional<WaitableMarker> Ledger::outstanding(StreamId stream, std::size_t nth,
                                                  Marker before) const {
  const std::lock_guard lock{state_->mutex};
  const Slot* slot = state_->tenant(stream);
  if (slot == nullptr || slot->markers.empty()) return std::nullopt;
  if (nth >= slot->markers.size() || slot->markers[nth].marker >= before) {
    const std::size_t end = slot->markers.first_from(before);
    if (end == 0) return std::nullopt;
    nth = std::min(nth, end - 1);
  }
  const Published& published = slot->markers[nth];
  return WaitableMarker{{stream, published.marker}, published.token, published.serial};
}

Frontier Ledger::frontier(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  const Slot& slot = state.open_slot(stream);
  const auto next_of = [&](std::uint32_t index) {
    const Slot& other = state.slots[index];
    return Point{other.id(index), other.count.next(state.group.epoch)};
  };
  Frontier all;
  state.collect_before(slot, all);
  all = state.spelled_out(std::move(all));
  all.advance(next_of(stream.slot));
  if (slot.traits.legacy) {
    state.group.for_each_member([&](std::uint32_t index) { all.advance(next_of(index)); });
  } else if (slot.traits.blocking && state.group.legacy != SlotSet::kNone) {
    all.advance(next_of(state.group.legacy));
  }
  return state.beyond_last(all);
}

Frontier Ledger::completed_frontier() const {
  const std::lock_guard lock{state_->mutex};
  State& state = *state_;
  for (std::uint32_t i = 0; state.group.completed != 0 && i < state.slots.size(); ++i) {
    if (state.slots[i].settled < state.group.completed) state.settle(i, state.returned);
  }
  Frontier completed;
  for (std::uint32_t i = 0; i < state.slots.size(); ++i) {
    const Slot& slot = state.slots[i];
    if (slot.completed == 0 && slot.generation == 1) continue;  // never completed anything
    completed.advance({slot.id(i), slot.completed});
  }
  return completed;
}

std::size_t Ledger::tracked_streams() const {
  const std::lock_guard lock{state_->mutex};
  return state_->tracked;
}

}  // namespace millrace
