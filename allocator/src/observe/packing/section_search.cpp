#include "observe/packing/section_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace millrace::packing {

namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kFailedStates = std::size_t{1} << 18;
// With longer lists, looking at all sections before each choice costs more than it saves.
constexpr std::size_t kMostForAllSections = 100'000;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/** How early a block is tried, in one of four orders, with some noise. */
double key_of(const Sections::Block& block, std::uint64_t order, double noise) {
  const double length = std::log(block.end - block.first);
  const double bytes = std::log(static_cast<double>(block.bytes));
  switch (order) {
    case 0:
      return length + bytes + noise;
    case 1:
      return length + 0.1 * bytes + noise;
    case 2:
      return bytes + noise;
    default:
      return length + 0.5 * bytes + noise;
  }
}

}  // namespace

SectionSearch::SectionSearch(const Sections& problem, std::uint64_t height)
    : problem_{problem},
      height_{height},
      looks_everywhere_{problem.members.total() <= kMostForAllSections},
      offset_(problem.blocks.size()),
      placed_(problem.blocks.size(), true),
      floor_(problem.count()),
      remaining_(problem.count()),
      unplaced_(problem.count()),
      crossing_(problem.count() + 1),
      hash_(problem.count()),
      holder_(problem.count()),
      next_held_(problem.count(), kNone),
      previous_held_(problem.count(), kNone),
      first_held_(problem.blocks.size(), kNone),
      is_dirty_(problem.count()),
      failed_(kFailedStates),
      key_(problem.blocks.size()) {
  for (Index block = 0; block < problem.blocks.size(); ++block) account(block, false);
  for (Index section = 0; section < problem.count(); ++section) {
    const Index holder = problem.members[section].front();
    holder_[section] = holder;
    next_held_[section] = std::exchange(first_held_[holder], section);
    if (next_held_[section] != kNone) previous_held_[next_held_[section]] = section;
  }
}

Outcome SectionSearch::run(Steps& steps) {
  for (Index section = 0; section < problem_.count(); ++section) {
    if (remaining_[section] > height_) return Outcome::impossible;
  }
  std::uint64_t nodes = std::max<std::uint64_t>(2000, 3 * problem_.blocks.size());
  for (std::uint64_t number = 0;; ++number) {
    if (number % 16 == 15) nodes *= 2;
    prepare(number);
    const Outcome outcome = attempt(nodes, steps);
    if (outcome != Outcome::gave_up || steps.spent()) return outcome;
  }
}

void SectionSearch::prepare(std::uint64_t attempt) {
  undo(0);
  frames_.clear();
  options_.clear();
  parts_.clear();
  choice_ = looks_everywhere_ ? static_cast<Choice>(attempt / 4 % 3) : Choice::tightest;
  const double most_noise = attempt < 4 ? 0 : static_cast<double>(mix(attempt) >> 12) * 0x1p-52;
  for (Index block = 0; block < key_.size(); ++block) {
    const double noise = static_cast<double>(mix(attempt << 32 | block) >> 12) * 0x1p-52 - 0.5;
    key_[block] = key_of(problem_.blocks[block], attempt % 4, noise * most_noise);
  }
}

Outcome SectionSearch::attempt(std::uint64_t most_choices, Steps& steps) {
  choices_ = 0;
  Status status = enter(0, static_cast<Index>(problem_.count()));
  while (!frames_.empty()) {
    steps.take(std::exchange(work_, 0));
    if (choices_ > most_choices || steps.spent()) return Outcome::gave_up;
    status = frames_.back().section == kNone ? resume_parts(status) : resume_choice(status);
  }
  return status == Status::solved ? Outcome::found : Outcome::impossible;
}

SectionSearch::Status SectionSearch::enter(Index first, Index end) {
  work_ += end - first;
  const std::size_t begin = parts_.size();
  for (Index from = first, to = first + 1; to <= end; ++to) {
    if (to != end && crossing_[to] > 0) continue;
    if (unplaced_[from] > 0) parts_.push_back({from, to});
    from = to;
  }
  const std::size_t count = parts_.size() - begin;
  if (count == 0) return Status::solved;
  if (count == 1) {
    const Part only = parts_.back();
    parts_.pop_back();
    return open_choice(only.first, only.end);
  }
  std::ranges::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(begin), parts_.end(), {},
                           [](const Part& part) { return part.end - part.first; });
  frames_.push_back({.first = first,
                     .end = end,
                     .section = kNone,
                     .begin = begin,
                     .next = begin,
                     .mark = 0,
                     .state = parts_.size(),
                     .may_raise = false});
  return Status::open;
}

SectionSearch::Status SectionSearch::resume_parts(Status status) {
  Frame& frame = frames_.back();
  if (status == Status::failed || frame.next == frame.state) {
    parts_.resize(frame.begin);
    frames_.pop_back();
    return status == Status::failed ? Status::failed : Status::solved;
  }
  const Part part = parts_[frame.next++];
  return enter(part.first, part.end);
}

SectionSearch::Status SectionSearch::open_choice(Index first, Index end) {
  const std::uint64_t state = state_of(first, end);
  if (failed_[state % failed_.size()] == state) return Status::failed;
  ++choices_;
  const Index section = choose_section(first, end);
  const std::size_t begin = options_.size();
  for (const Index block : problem_.members[section]) {
    if (!placed_[block] && offset_[block] == floor_[section]) options_.push_back(block);
  }
  std::sort(options_.begin() + static_cast<std::ptrdiff_t>(begin), options_.end(),
            [&](Index a, Index b) { return key_[a] != key_[b] ? key_[a] > key_[b] : a < b; });
  frames_.push_back({.first = first,
                     .end = end,
                     .section = section,
                     .begin = begin,
                     .next = begin,
                     .mark = undo_.size(),
                     .state = state,
                     .may_raise = slack(section) > 0});
  return Status::open;
}

SectionSearch::Status SectionSearch::resume_choice(Status status) {
  Frame& frame = frames_.back();
  if (status == Status::failed) undo(frame.mark);
  if (status != Status::solved && try_next(frame)) return enter(frame.first, frame.end);
  if (status != Status::solved) {
    failed_[frame.state % failed_.size()] = frame.state;
    status = Status::failed;
  }
  options_.resize(frame.begin);
  frames_.pop_back();
  return status;
}

// The options of the newest frame are the last ones.
bool SectionSearch::try_next(Frame& frame) {
  while (frame.next < options_.size()) {
    const std::size_t option = frame.next++;
    if (is_twin(frame, option)) continue;
    if (place(options_[option])) return true;
    undo(frame.mark);
  }
  if (!std::exchange(frame.may_raise, false)) return false;
  if (raise(frame.section)) return true;
  undo(frame.mark);
  return false;
}

/** Whether an earlier option is the same in all respects. */
bool SectionSearch::is_twin(const Frame& frame, std::size_t option) const {
  const Sections::Block& block = problem_.blocks[options_[option]];
  for (std::size_t i = frame.begin; i < option; ++i) {
    const Sections::Block& other = problem_.blocks[options_[i]];
    if (std::tie(block.first, block.end, block.bytes) ==
        std::tie(other.first, other.end, other.bytes)) {
      return true;
    }
  }
  return false;
}

std::uint64_t SectionSearch::state_of(Index first, Index end) {
  work_ += end - first;
  std::uint64_t hash = mix(std::uint64_t{first} << 32 | end);
  for (Index section = first; section < end; ++section) {
    hash += hash_[section] + mix(floor_[section] * 0x9e3779b97f4a7c15U + section);
  }
  return mix(hash) | 1;
}

SectionSearch::Index SectionSearch::choose_section(Index first, Index end) {
  if (choice_ == Choice::tightest) return tightest_of_lowest(first, end);
  Chosen best{.section = kNone, .options = 0, .slack = 0, .floor = 0};
  for (Index begin = first; begin < end;) {
    Plateau plateau{begin, begin, floor_[begin]};
    while (plateau.end < end && floor_[plateau.end] == plateau.floor) ++plateau.end;
    compare_sections(plateau, best);
    begin = plateau.end;
    const bool forced = best.section != kNone && best.options + (best.slack > 0 ? 1 : 0) < 2;
    if (choice_ == Choice::fewest_options && forced) break;
  }
  return best.section;
}

SectionSearch::Index SectionSearch::tightest_of_lowest(Index first, Index end) {
  work_ += end - first;
  Index best = first;
  for (Index section = first + 1; section < end; ++section) {
    if (std::pair{floor_[section], slack(section)} < std::pair{floor_[best], slack(best)}) {
      best = section;
    }
  }
  return best;
}

// A block on the floor of a section leaves no room below it only if it sees this floor everywhere.
void SectionSearch::compare_sections(const Plateau& plateau, Chosen& best) {
  for (Index section = plateau.first; section < plateau.end; ++section) {
    Chosen chosen{
        .section = section, .options = 0, .slack = slack(section), .floor = plateau.floor};
    bool may_be_chosen = true;
    for (const Index block : problem_.members[section]) {
      ++work_;
      if (placed_[block] || offset_[block] != plateau.floor) continue;
      ++chosen.options;
      const Sections::Block& life = problem_.blocks[block];
      may_be_chosen = life.first >= plateau.first && life.end <= plateau.end;
      if (!may_be_chosen) break;
    }
    if (may_be_chosen && (best.section == kNone || better(chosen, best))) best = chosen;
  }
}

bool SectionSearch::better(const Chosen& a, const Chosen& b) const {
  const auto tries = [](const Chosen& chosen) {
    return 2 * chosen.options + (chosen.slack > 0 ? 1 : 0);
  };
  if (choice_ == Choice::lowest) {
    return std::tuple{a.floor, tries(a), a.slack} < std::tuple{b.floor, tries(b), b.slack};
  }
  return std::tuple{tries(a), a.slack, a.floor} < std::tuple{tries(b), b.slack, b.floor};
}

bool SectionSearch::place(Index block) {
  const Sections::Block& life = problem_.blocks[block];
  const std::uint64_t top = offset_[block] + life.bytes;
  undo_.push_back({Undo::placed, block, 0});
  account(block, true);
  bool possible = true;
  for (Index section = life.first; section < life.end; ++section) {
    set_floor(section, top);
    possible = possible && (unplaced_[section] == 0 || top + remaining_[section] <= height_);
  }
  const auto overlaps = problem_.overlaps[block];
  work_ += overlaps.size() + 4 * (life.end - life.first);
  for (std::size_t i = 0; i < overlaps.size() && possible; ++i) {
    const Index other = overlaps[i];
    if (!placed_[other] && offset_[other] < top) possible = lift(other, top);
  }
  if (possible) find_holders(block, top);
  return settle(possible);
}

/** In the sections of a block just placed: finds a holder at its top, or marks the section. */
void SectionSearch::find_holders(Index block, std::uint64_t top) {
  const Sections::Block& life = problem_.blocks[block];
  const Index length = life.end - life.first;
  to_hold_.resize(length + 1);
  std::iota(to_hold_.begin(), to_hold_.end(), Index{0});
  const auto next_to_hold = [&](Index at) {  // union-find: sections that have one are passed over
    while (to_hold_[at] != at) at = to_hold_[at] = to_hold_[to_hold_[at]];
    return at;
  };
  for (const Index other : problem_.overlaps[block]) {
    if (placed_[other] || offset_[other] != top) continue;
    const Sections::Block& held = problem_.blocks[other];
    const Index end = std::min(held.end, life.end) - life.first;
    const Index begin = std::max(held.first, life.first) - life.first;
    for (Index at = next_to_hold(begin); at < end; at = next_to_hold(at)) {
      set_holder(life.first + at, other);
      to_hold_[at] = at + 1;
    }
  }
  for (Index at = next_to_hold(0); at < length; at = next_to_hold(at + 1)) {
    mark_dirty(life.first + at);
  }
}

bool SectionSearch::raise(Index section) {
  const std::uint64_t offset = next_offset(section);
  if (offset == kNever || offset + remaining_[section] > height_) return false;
  set_floor(section, offset);
  mark_dirty(section);
  bool possible = true;
  for (const Index block : problem_.members[section]) {
    ++work_;
    if (possible && !placed_[block] && offset_[block] < offset) possible = lift(block, offset);
  }
  return settle(possible);
}

/** The lowest offset above its floor that a block of a section can have: it sees a higher floor
 * elsewhere, or lies on a block that is not in the section. */
std::uint64_t SectionSearch::next_offset(Index section) {
  const std::uint64_t floor = floor_[section];
  std::uint64_t lowest = kNever;
  for (const Index block : problem_.members[section]) {
    if (placed_[block]) continue;
    if (offset_[block] > floor) {
      lowest = std::min(lowest, offset_[block]);
      continue;
    }
    for (const Index below : problem_.overlaps[block]) {
      ++work_;
      const Sections::Block& life = problem_.blocks[below];
      if (placed_[below] || (life.first <= section && section < life.end)) continue;
      lowest = std::min(lowest, offset_[below] + life.bytes);
    }
  }
  return lowest;
}

/** @return whether the block still fits */
bool SectionSearch::lift(Index block, std::uint64_t offset) {
  undo_.push_back({Undo::offset, block, std::exchange(offset_[block], offset)});
  for (Index section = first_held_[block]; section != kNone; section = next_held_[section]) {
    ++work_;
    mark_dirty(section);
  }
  return offset + problem_.blocks[block].bytes <= height_;
}

/** Raises the floors of marked sections to where the lowest of their blocks can lie. */
bool SectionSearch::settle(bool possible) {
  for (const Index section : dirty_) {
    is_dirty_[section] = false;
    if (!possible || unplaced_[section] == 0) continue;
    Index lowest = kNone;
    for (const Index block : problem_.members[section]) {
      ++work_;
      if (placed_[block] || (lowest != kNone && offset_[block] >= offset_[lowest])) continue;
      lowest = block;
      if (offset_[block] == floor_[section]) break;
    }
    set_holder(section, lowest);
    if (offset_[lowest] > floor_[section]) set_floor(section, offset_[lowest]);
    possible = offset_[lowest] + remaining_[section] <= height_;
  }
  dirty_.clear();
  return possible;
}

void SectionSearch::set_holder(Index section, Index block) {
  undo_.push_back({Undo::holder, section, holder_[section]});
  move_holder(section, block);
}

void SectionSearch::move_holder(Index section, Index block) {
  const Index before = previous_held_[section];
  const Index after = next_held_[section];
  (before == kNone ? first_held_[holder_[section]] : next_held_[before]) = after;
  if (after != kNone) previous_held_[after] = before;
  const Index head = std::exchange(first_held_[block], section);
  if (head != kNone) previous_held_[head] = section;
  previous_held_[section] = kNone;
  next_held_[section] = head;
  holder_[section] = block;
}

void SectionSearch::set_floor(Index section, std::uint64_t floor) {
  undo_.push_back({Undo::floor, section, std::exchange(floor_[section], floor)});
}

void SectionSearch::mark_dirty(Index section) {
  if (is_dirty_[section]) return;
  is_dirty_[section] = true;
  dirty_.push_back(section);
}

void SectionSearch::undo(std::size_t mark) {
  for (; undo_.size() > mark; undo_.pop_back()) {
    const Undo& change = undo_.back();
    if (change.kind == Undo::floor) {
      floor_[change.index] = change.old;
    } else if (change.kind == Undo::offset) {
      offset_[change.index] = change.old;
    } else if (change.kind == Undo::holder) {
      move_holder(change.index, static_cast<Index>(change.old));
    } else {
      account(change.index, false);
    }
  }
}

/** Counts a block among the placed ones, or among the others. */
void SectionSearch::account(Index block, bool placed) {
  const Sections::Block& life = problem_.blocks[block];
  placed_[block] = placed;
  hash_[life.first] += placed ? -mix(block) : mix(block);
  const std::uint64_t bytes = placed ? -life.bytes : life.bytes;  // unsigned arithmetic wraps
  const Index one = placed ? -Index{1} : 1;
  for (Index section = life.first; section < life.end; ++section) {
    remaining_[section] += bytes;
    unplaced_[section] += one;
    if (section > life.first) crossing_[section] += one;
  }
}

}  // namespace millrace::packing
