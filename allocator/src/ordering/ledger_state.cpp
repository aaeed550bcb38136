#include "ordering/ledger_state.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace millrace {

using ordering::Alias;
using ordering::NumberedRing;
using ordering::Published;
using ordering::Slot;
using SharedAnswer = ordering::SharedFrontier::Answer;

void Ledger::State::refuse_closed() {
  throw std::invalid_argument{"Ledger: the stream is not open"};
}

void Ledger::State::declare(std::uint32_t index, StreamTraits traits) {
  slots[index].traits = traits;
  note_wait();  // the legacy stream may order more now
  if (traits.legacy || !traits.blocking) return group.leave(index);
  group.enter(index);
  group.is_independent |= traits.independent;
}

bool Ledger::State::known_complete(Point point) const {
  if (point.marker == 0) return true;
  const Slot* slot = slots.find(point.stream.slot);
  if (slot == nullptr) return point.stream == kGroup && group.completed >= point.marker;
  const std::uint32_t generation = slot->generation;
  if (generation != point.stream.generation) return generation > point.stream.generation;
  if (slot->completed >= within(*slot, point.marker)) return true;
  return slot->generation != generation;  // became vacant meanwhile
}

bool Ledger::State::may_be_complete(Point point) const {
  const Slot* slot = tenant(point.stream);
  return slot != nullptr && slot->settled < group.completed;
}

bool Ledger::State::completed(Point point) {
  if (known_complete(point)) return true;
  if (!may_be_complete(point)) return false;
  settle(point.stream.slot, returned);
  return known_complete(point);
}

void Ledger::State::drop_completed(Frontier& frontier) {
  ordering::count_steps(frontier.size());
  frontier.drop_if([&](Point point) { return completed(point); });
}

// The legacy stream is ordered after all work of the group's members, and they after its work. So
// its shared frontier counts for a member too. `unknown` makes the caller take the mutex.
SharedAnswer Ledger::State::ordered_unlocked(Point point, StreamId user) const {
  const Slot& slot = slots[user.slot];
  const Slot* other = tenant(point.stream);
  if (other != nullptr) point.marker = within(*other, point.marker);
  const SharedAnswer mine = slot.shared.covers(point, kGroup.slot);
  const std::uint32_t legacy = group.legacy;
  if (mine == SharedAnswer::yes || legacy == SlotSet::kNone) return mine;
  if (legacy == user.slot) {
    if (other != nullptr && group.contains(point.stream.slot)) return SharedAnswer::yes;
    return group.members == 0 ? mine : SharedAnswer::unknown;
  }
  if (!slot.count.counts_epochs()) return mine;
  if (other == &slots[legacy]) return SharedAnswer::yes;
  const SharedAnswer by_legacy = slots[legacy].shared.covers(point, kGroup.slot);
  return by_legacy == SharedAnswer::no ? mine : by_legacy;
}

// The group's point covers, on each member, the number that its epoch took there.
bool Ledger::State::covers(const Frontier& frontier, Point point) const {
  if (frontier.covers(point)) return true;
  const Marker epoch = frontier.at(kGroup);
  const Slot* slot = epoch == 0 ? nullptr : tenant(point.stream);
  return slot != nullptr && slot->epochs.number_at(epoch) >= point.marker;
}

bool Ledger::State::ordered(Point point, const Slot& user) {
  const Slot* other = tenant(point.stream);
  if (other != nullptr) point.marker = within(*other, point.marker);
  if (covers(user.frontier, point)) return true;
  if (user.traits.legacy) {
    return (other != nullptr && group.contains(point.stream.slot)) || covers(group.waits(), point);
  }
  if (!user.traits.blocking || group.legacy == SlotSet::kNone) return false;
  const Slot& legacy = slots[group.legacy];
  return &legacy == other || covers(legacy.frontier, point);
}

// A closed stream's last marker covers every number that a free there got before the close.
Frontier Ledger::State::beyond_last(const Frontier& frontier) const {
  Frontier all = frontier;
  for (const Point point : frontier) {
    const Slot* slot = tenant(point.stream);
    if (slot != nullptr && slot->phase == Phase::closed &&
        point.marker >= slot->count.next(group.epoch)) {
      all.advance({point.stream, std::numeric_limits<Marker>::max()});
    }
  }
  return all;
}

Frontier Ledger::State::spelled_out(Frontier frontier) {
  const Marker epoch = frontier.at(kGroup);
  if (epoch == 0) return frontier;
  frontier.drop_if([](Point point) { return point.stream == kGroup; });
  for (std::uint32_t index = 0; index < slots.size(); ++index) {
    const Slot& slot = slots[index];
    const Marker number = slot.epochs.number_at(epoch);
    if (number > slot.completed) frontier.advance({slot.id(index), within(slot, number)});
  }
  return frontier;
}

// Drops complete points only after the frontier has doubled, so that the cost is amortized O(1) for
// each point.
void Ledger::State::order(std::uint32_t index, const Frontier& after) {
  constexpr std::size_t kFew = 8;
  Slot& slot = slots[index];
  ordering::count_steps(after.size());
  slot.frontier.join(after);
  if (slot.frontier.size() > std::max(kFew, 2 * slot.kept_points)) {
    drop_completed(slot.frontier);
    slot.kept_points = slot.frontier.size();
  }
  slot.shared.share(slot.frontier);
  note_wait();
}

void Ledger::State::wait(std::uint32_t index, const Frontier& after) {
  order(index, after);
  if (group.contains(index)) group.waited(index, after);
}

void Ledger::State::collect_before(const Slot& slot, Frontier& before) {
  before = slot.frontier;
  if (slot.traits.legacy) {
    before.join(group.waits());
  } else if (slot.traits.blocking && group.legacy != SlotSet::kNone) {
    before.join(slots[group.legacy].frontier);
  }
  if (!before.empty()) drop_completed(before);
}

// A record on the legacy stream begins an epoch, which covers all members. A record on a member
// covers a number that it takes on the legacy stream.
Point Ledger::State::take_implied(const Slot& slot) {
  if (slot.traits.legacy) return group.members == 0 ? Point{} : Point{kGroup, ++group.epoch};
  const std::uint32_t index = group.legacy;
  if (!slot.traits.blocking || index == SlotSet::kNone) return {};
  return {slots[index].id(index), take(slots[index])};
}

Published* Ledger::State::own(Point marker) {
  Slot* slot = tenant(marker.stream);
  return slot == nullptr ? nullptr : slot->markers.find(marker.marker);
}

Published* Ledger::State::recorded(Point marker) {
  if (Published* published = own(marker)) return published;
  Slot* slot = tenant(marker.stream);
  if (slot == nullptr) return nullptr;
  const auto old = std::ranges::find(slot->withdrawn, marker.marker, &Published::marker);
  return old != slot->withdrawn.end() ? &*old : nullptr;
}

Published* Ledger::State::find(Point marker) {
  if (Published* published = recorded(marker)) return published;
  Slot* slot = tenant(marker.stream);
  if (slot == nullptr) return nullptr;
  Marker stands_for = 0;
  Published* implied = first_implied(*slot, marker, stands_for);
  return stands_for == marker.marker ? implied : nullptr;
}

// Only the legacy stream has aliases of its own. A member finds the epoch that covers its number.
Published* Ledger::State::first_implied(Slot& slot, Point point, Marker& stands_for) {
  if (!slot.aliases.empty()) return first_alive(slot.aliases, point.marker, stands_for);
  const Marker from = slot.epochs.first_reaching(point.marker);
  if (from == 0) return nullptr;
  Marker epoch = 0;
  Published* published = first_alive(group.aliases, from, epoch);
  if (published == nullptr) return nullptr;
  const Marker number = slot.epochs.number_at(epoch);
  if (number < point.marker) return nullptr;  // the stream had left the group
  stands_for = within(slot, number);
  return published;
}

// An alias of a removed marker is removed here, so that it is inspected only once.
Published* Ledger::State::first_alive(NumberedRing<Alias>& aliases, Marker from, Marker& number) {
  const std::size_t at = aliases.first_from(from);
  while (at < aliases.size()) {
    if (Published* published = own(aliases[at].recorded)) {
      number = aliases[at].marker;
      return published;
    }
    aliases.erase(at);
  }
  return nullptr;
}

const Published& Ledger::State::insert(Slot& slot, PendingRecord& record, MarkerToken token) {
  Published& entry = slot.markers.insert(within(slot, record.point.marker));
  entry.token = token;
  entry.serial = serial.load(std::memory_order_relaxed) + 1;
  serial.store(entry.serial, std::memory_order_release);
  entry.implied = record.implied;
  if (record.before.empty()) {
    entry.snapshot.clear();
  } else {
    std::swap(entry.snapshot, record.before);
  }
  entry.snapshot.advance(record.point);
  if (record.implied.marker != 0) entry.snapshot.advance(record.implied);
  count_outstanding(1);
  with_markers.insert(record.point.stream.slot);
  if (slot.settled != Slot::kNever) group.watch(record.point.stream.slot);
  return entry;
}

// With an independent stream in the group no alias is added: a wait by alias could wait for it.
void Ledger::State::imply(Point marker, const Published& published) {
  const Point implied = published.implied;
  order(marker.stream.slot, published.snapshot);
  if (implied.stream == kGroup) group.published(implied.marker);
  if (group.is_independent) return;
  Slot* legacy = implied.stream == kGroup ? nullptr : tenant(implied.stream);
  if (implied.stream == kGroup) {
    group.aliases.insert(implied.marker).recorded = marker;
  } else if (legacy != nullptr && legacy->phase != Phase::vacant) {
    legacy->aliases.insert(within(*legacy, implied.marker)).recorded = marker;
  }
}

Marker Ledger::State::newest_waitable(Slot& slot) {
  Marker newest = slot.markers.empty() ? 0 : slot.markers[slot.markers.size() - 1].marker;
  auto& aliases = slot.traits.legacy ? slot.aliases : group.aliases;
  while (!aliases.empty() && own(aliases[aliases.size() - 1].recorded) == nullptr) {
    aliases.erase(aliases.size() - 1);
  }
  if (aliases.empty()) return newest;
  const Marker number = aliases[aliases.size() - 1].marker;
  return std::max(newest, slot.traits.legacy ? number : slot.epochs.number_at(number));
}

void Ledger::State::remove_alias(Point implied) {
  if (implied.stream == kGroup) return group.aliases.erase_number(implied.marker);
  if (Slot* legacy = tenant(implied.stream)) legacy->aliases.erase_number(implied.marker);
}

void Ledger::State::complete(Point marker, std::vector<MarkerToken>& done) {
  // The usual case: the stream's oldest marker, which stands only for itself.
  Slot* const slot = tenant(marker.stream);
  if (slot != nullptr && !slot->markers.empty()) {
    const Published& oldest = slot->markers[0];
    if (oldest.marker == marker.marker && oldest.snapshot.size() == 1) {
      raise(*oldest.snapshot.begin(), done);
      return return_settled(done);
    }
  }
  const Published* published = recorded(marker);
  if (published != nullptr) {
    reached = published->snapshot;
  } else {
    reached.clear();
    reached.advance(marker);
  }
  raise_all(done);
}

void Ledger::State::complete(const Frontier& frontier, std::vector<MarkerToken>& done) {
  reached = frontier;
  for (const Point point : frontier) {
    if (const Published* published = recorded(point)) reached.join(published->snapshot);
  }
  raise_all(done);
}

void Ledger::State::raise_all(std::vector<MarkerToken>& done) {
  ordering::count_steps(reached.size());
  for (const Point point : reached) {
    if (point.stream == kGroup) {
      raise_group(point.marker, done);
    } else {
      raise(point, done);
    }
  }
  return_settled(done);
}

// An open stream is complete at most up to the last number taken, a closed one up to its last
// marker, which `count` holds.
void Ledger::State::raise(Point point, std::vector<MarkerToken>& done) {
  Slot* slot = tenant(point.stream);
  if (slot == nullptr || slot->phase == Phase::vacant) return;
  const bool is_open = slot->phase == Phase::open;
  const Marker next = slot->count.next(group.epoch);
  const Marker now_complete = std::min(point.marker, is_open ? next - 1 : next);
  Marker completed = slot->completed.load(std::memory_order_relaxed);
  if (now_complete > completed) {
    completed = now_complete;
    slot->completed.store(completed, std::memory_order_release);
    progress.note(point.stream);
  }

  auto& markers = slot->markers;
  while (!markers.empty()) {
    const Published& oldest = markers[0];
    if (oldest.marker > completed) break;
    done.push_back(oldest.token);
    markers.pop_front();
    count_outstanding(-1);
  }
  if (markers.empty()) with_markers.erase(point.stream.slot);
  while (!slot->aliases.empty() && slot->aliases[0].marker <= completed) slot->aliases.pop_front();
  if (!slot->withdrawn.empty()) {
    std::erase_if(slot->withdrawn, [&](const Published& p) { return p.marker <= completed; });
  }
  if (!is_open) vacate_if_complete(point.stream.slot);
}

void Ledger::State::raise_group(Marker epoch, std::vector<MarkerToken>& done) {
  epoch = std::min(epoch, group.epoch.load());
  if (epoch <= group.completed) return;
  group.completed = epoch;
  progress.note(kGroup);
  while (!group.aliases.empty() && group.aliases[0].marker <= epoch) group.aliases.pop_front();
  while (const auto index = group.take_due()) {
    settle(*index, done);
    group.watch(*index);
  }
}

void Ledger::State::settle(std::uint32_t index, std::vector<MarkerToken>& done) {
  Slot& slot = slots[index];
  if (slot.phase == Phase::vacant || slot.settled == Slot::kNever) return;
  slot.settled = group.completed.load();
  raise({slot.id(index), slot.epochs.number_at(group.completed)}, done);
}

void Ledger::State::vacate_if_complete(std::uint32_t index) {
  Slot& slot = slots[index];
  if (slot.phase != Phase::closed || !slot.markers.empty()) return;
  if (slot.completed < slot.count.next(group.epoch)) return;
  slot.withdrawn.clear();
  slot.markers.clear();
  slot.aliases.clear();
  slot.epochs.clear();
  --tracked;
  slot.completed = std::numeric_limits<Marker>::max();
  if (slot.generation == std::numeric_limits<std::uint32_t>::max()) return;  // retired
  ++slot.generation;  // before `completed` changes: readers hold no lock
  slot.phase = Phase::vacant;
  slot.settled = Slot::kNever;
  slot.completed = 0;
  slot.count.set(1);
  slot.waited_in = 0;
  vacant.push_back(index);
}

}  // namespace millrace
