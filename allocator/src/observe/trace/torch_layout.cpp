#include "millrace/observe/trace/torch_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "observe/trace/torch_rest.hpp"

namespace millrace::trace {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeHandle = 20 * kMiB;
constexpr std::uint64_t kLargestRest = kMiB;  // that stays with a large block

// Free blocks are not kept: they are what lies between blocks in use. So undoing an allocation is
// to forget a block, and undoing a free is to put one back.
class Rewind {
 public:
  Rewind(const TorchSnapshot& snapshot, std::uint32_t device, Warnings& warnings)
      : settings_{snapshot.settings}, device_{device}, warnings_{warnings} {
    for (const TorchSegment& segment : snapshot.segments) {
      if (segment.device == device) take(segment);
    }
  }

  void undo(const std::vector<TorchEvent>& events) {
    for (position_ = events.size(); position_-- > 0;) {
      const TorchEvent* const before = position_ > 0 ? &events[position_ - 1] : nullptr;
      after_segment_alloc_ = before != nullptr && before->action == TorchAction::segment_alloc;
      undo(events[position_]);
    }
  }

  /** The blocks that may or may not have an unsplit rest. */
  [[nodiscard]] std::set<std::uint64_t> doubtful() {
    std::set<std::uint64_t> addresses;
    for (const auto& [address, held] : blocks_) {
      const TorchSegment& segment = segment_of(address)->second;
      const std::uint64_t rounded = torch_rounded(held.requested, settings_);
      const std::uint64_t room = held.room_end - address;
      if (held.bytes == 0 && may_keep_rest(segment) && block_bytes(segment, rounded, room) < room) {
        addresses.insert(address);
      }
    }
    return addresses;
  }

  /** Looks for clues about these when undoing. */
  void watch(std::set<std::uint64_t> addresses) { watched_ = std::move(addresses); }

  [[nodiscard]] TorchLayout layout() {
    TorchLayout layout;
    for (auto& [address, segment] : segments_) {
      fill(segment);
      layout.segments.push_back(segment);
    }
    for (const auto& [address, held] : unplaced_) {
      layout.unplaced.push_back(
          {address, torch_rounded(held.requested, settings_), held.requested, held.state});
    }
    return layout;
  }

 private:
  struct Held {
    std::uint64_t requested = 0;
    BlockState state = BlockState::allocated;
    std::uint64_t bytes = 0;     // as the snapshot says; 0 if it does not
    std::uint64_t room_end = 0;  // the nearest thing behind it, at any moment so far
    RestClues clues = {};
  };
  using Blocks = std::map<std::uint64_t, Held>;
  using Segments = std::map<std::uint64_t, TorchSegment>;

  static std::uint64_t end_of(const TorchSegment& segment) {
    return segment.address + segment.bytes;
  }

  void undo(const TorchEvent& event) {
    switch (event.action) {
      case TorchAction::alloc:
        return undo_alloc(event);
      case TorchAction::free_requested:
        return undo_free_requested(event);
      case TorchAction::free_completed:
        return put_back(event.address,
                        {.requested = event.bytes, .state = BlockState::pending_free});
      case TorchAction::segment_alloc:
        return undo_segment_alloc(event);
      case TorchAction::segment_free:
        return undo_segment_free(event, false);
      case TorchAction::segment_map:
        return undo_segment_map(event);
      case TorchAction::segment_unmap:
        return undo_segment_free(event, true);
      case TorchAction::snapshot:
      case TorchAction::out_of_memory:
      case TorchAction::other:
        return;
    }
  }

  void note(std::string_view finding, std::uint64_t address) {
    warnings_.add(finding,
                  fmt::format("device_traces[{}][{}], address {:#x}", device_, position_, address));
  }

  void take(const TorchSegment& segment) {
    if (overlaps_segment(segment.address, segment.bytes)) {
      warnings_.add("a segment of the snapshot overlaps another and is left out",
                    fmt::format("segment at {:#x}", segment.address));
      return;
    }
    auto& mine = segments_.emplace(segment.address, segment).first->second;
    mine.blocks.clear();
    for (const TorchBlock& block : segment.blocks) {
      if (block.state == BlockState::inactive) continue;
      if (block.address < segment.address || block.address + block.bytes > end_of(segment)) {
        warnings_.add("a block of the snapshot lies outside its segment and is left out",
                      fmt::format("block at {:#x}", block.address));
        continue;
      }
      blocks_.insert_or_assign(block.address, Held{.requested = block.requested,
                                                   .state = block.state,
                                                   .bytes = block.bytes,
                                                   .room_end = block.address + block.bytes});
    }
  }

  // --- where things are ---

  Segments::iterator segment_of(std::uint64_t address) {
    auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return segments_.end();
    --after;
    return address < end_of(after->second) ? after : segments_.end();
  }

  bool overlaps_segment(std::uint64_t address, std::uint64_t bytes) {
    const auto next = segments_.lower_bound(address);
    if (next != segments_.end() && next->first < address + bytes) return true;
    return segment_of(address) != segments_.end();
  }

  [[nodiscard]] std::uint64_t least_end(const Blocks::value_type& block) const {
    const auto& [address, held] = block;
    return address + (held.bytes != 0 ? held.bytes : torch_rounded(held.requested, settings_));
  }

  // The end of the free space that a block at this address could have been cut from.
  [[nodiscard]] std::uint64_t room_end(const TorchSegment& segment, Blocks::iterator next) const {
    return next == blocks_.end() ? end_of(segment) : std::min(next->first, end_of(segment));
  }

  [[nodiscard]] bool may_keep_rest(const TorchSegment& segment) const {
    return segment.large && !segment.expandable && !settings_.expandable_segments;
  }

  // What PyTorch makes of a free block of `room` bytes, asked for `rounded` of them.
  [[nodiscard]] std::uint64_t block_bytes(const TorchSegment& segment, std::uint64_t rounded,
                                          std::uint64_t room) const {
    if (!may_keep_rest(segment) || room <= rounded) return rounded;
    const bool keeps_rest = rounded >= settings_.max_split_size || room - rounded <= kLargestRest;
    return keeps_rest ? room : rounded;
  }

  // --- blocks ---

  void undo_alloc(const TorchEvent& event) {
    const auto block = blocks_.find(event.address);
    if (block == blocks_.end()) {
      if (unplaced_.erase(event.address) == 0) {
        note(segment_of(event.address) == segments_.end()
                 ? "a block that the trace uses is in no segment"
                 : "a block is allocated and never freed, but the snapshot does not hold it",
             event.address);
      }
      return;
    }
    const TorchSegment& segment = segment_of(event.address)->second;
    const std::uint64_t room = room_end(segment, std::next(block)) - event.address;
    const std::uint64_t rounded = torch_rounded(event.bytes, settings_);
    const Held& held = block->second;
    if (held.requested != event.bytes) {
      note("a block is allocated with one size, and freed or held with another", event.address);
    } else if (held.bytes != 0 && held.bytes != block_bytes(segment, rounded, room)) {
      note("a block has another size than the rules give it", event.address);
    }
    blocks_.erase(block);
    if (!watched_.empty() && may_keep_rest(segment) && rounded < settings_.max_split_size) {
      const bool new_segment = after_segment_alloc_ && event.address == segment.address;
      find_clues(segment, {.gap_end = 0,
                           .asked = rounded,
                           .chosen_bytes = new_segment ? UINT64_MAX : room,
                           .chosen_address = event.address});
    }
  }

  void find_clues(const TorchSegment& chosen, RestClues::Choice choice) {
    for (const std::uint64_t address : watched_) {
      const auto block = blocks_.find(address);
      if (block == blocks_.end() || clue_budget_ == 0) continue;
      --clue_budget_;
      const TorchSegment& segment = segment_of(address)->second;
      if (!segment.large || segment.stream != chosen.stream || segment.pool != chosen.pool)
        continue;
      choice.gap_end = room_end(segment, std::next(block));
      block->second.clues.add(least_end(*block), choice);
    }
  }

  void undo_free_requested(const TorchEvent& event) {
    for (Blocks* blocks : {&blocks_, &unplaced_}) {
      const auto block = blocks->find(event.address);
      if (block == blocks->end()) continue;
      if (block->second.state != BlockState::pending_free) {
        note("a block is freed, and then in use without being allocated", event.address);
      }
      block->second.state = BlockState::allocated;
      return;
    }
    // The free has not completed by the end of the trace, nor does the snapshot show it as pending.
    note("a block is freed that neither the snapshot nor the trace shows in use", event.address);
    put_back(event.address, {.requested = event.bytes, .state = BlockState::allocated});
  }

  void put_back(std::uint64_t address, Held held) {
    const auto segment = segment_of(address);
    if (segment == segments_.end()) {
      note("a block that the trace uses is in no segment", address);
      unplaced_.insert_or_assign(address, held);
      return;
    }
    clear(address, address + torch_rounded(held.requested, settings_));
    const auto next = blocks_.lower_bound(address);
    held.room_end = room_end(segment->second, next);
    if (next != blocks_.begin()) {
      Held& before = std::prev(next)->second;
      before.room_end = std::min(before.room_end, address);
    }
    blocks_.emplace_hint(next, address, held);
  }

  // Forgets the blocks in a range that, by an earlier event, held something else.
  void clear(std::uint64_t from, std::uint64_t to) {
    auto block = blocks_.lower_bound(from);
    if (block != blocks_.begin() && least_end(*std::prev(block)) > from) --block;
    while (block != blocks_.end() && block->first < to) {
      note("two blocks in use overlap; the one that was freed or held later is left out",
           block->first);
      block = blocks_.erase(block);
    }
  }

  // --- segments ---

  void undo_segment_alloc(const TorchEvent& event) {
    const auto segment = segments_.find(event.address);
    if (segment == segments_.end() || segment->second.bytes != event.bytes) {
      note("a segment is allocated and never freed, but the snapshot does not hold it",
           event.address);
      return;
    }
    require_unused(event);
    segments_.erase(segment);
  }

  void require_unused(const TorchEvent& event) {
    auto block = blocks_.lower_bound(event.address);
    while (block != blocks_.end() && block->first < event.address + event.bytes) {
      note("a block is in use before its segment exists", block->first);
      block = blocks_.erase(block);
    }
  }

  void undo_segment_free(const TorchEvent& event, bool expandable) {
    if (event.bytes == 0 || overlaps_segment(event.address, event.bytes)) {
      note("a segment is freed that is there later", event.address);
      return;
    }
    TorchSegment segment{.device = device_,
                         .address = event.address,
                         .bytes = event.bytes,
                         .stream = event.stream,
                         .large = event.bytes > kSmallSegment,
                         .expandable = expandable,
                         .blocks = {}};
    if (expandable) segment.large = event.bytes % kLargeHandle == 0;
    const auto placed = segments_.emplace(event.address, std::move(segment)).first;
    if (expandable) join_neighbours(placed);
  }

  static bool continues(const TorchSegment& first, const TorchSegment& second) {
    return first.expandable && second.expandable && first.stream == second.stream &&
           end_of(first) == second.address;
  }

  // A neighbour knows better than a size which pool the stretch belongs to.
  void join_neighbours(Segments::iterator segment) {
    const auto next = std::next(segment);
    if (next != segments_.end() && continues(segment->second, next->second)) {
      segment->second.bytes += next->second.bytes;
      segment->second.large = next->second.large;
      segment->second.pool = next->second.pool;
      segments_.erase(next);
    }
    if (segment == segments_.begin()) return;
    const auto before = std::prev(segment);
    if (continues(before->second, segment->second)) {
      before->second.bytes += segment->second.bytes;
      segments_.erase(segment);
    }
  }

  void undo_segment_map(const TorchEvent& event) {
    const auto found = segment_of(event.address);
    const std::uint64_t end = event.address + event.bytes;
    if (found == segments_.end() || end > end_of(found->second) || event.bytes == 0) {
      note("memory is mapped and never unmapped, but the snapshot does not hold it", event.address);
      return;
    }
    require_unused(event);
    TorchSegment rest = found->second;
    rest.bytes = end_of(rest) - end;
    rest.address = end;
    found->second.bytes = event.address - found->first;
    if (found->second.bytes == 0) segments_.erase(found);
    if (rest.bytes != 0) segments_.emplace(end, std::move(rest));
  }

  // --- result ---

  void fill(TorchSegment& segment) {
    std::uint64_t at = segment.address;
    const auto add_free = [&](std::uint64_t until) {
      if (until > at) segment.blocks.push_back({at, until - at, 0, BlockState::inactive});
    };
    for (auto block = blocks_.lower_bound(segment.address);
         block != blocks_.end() && block->first < end_of(segment); ++block) {
      const auto& [address, held] = *block;
      const std::uint64_t room = room_end(segment, std::next(block)) - address;
      const std::uint64_t rounded = torch_rounded(held.requested, settings_);
      std::uint64_t bytes = held.bytes;
      if (bytes == 0) {
        bytes = block_bytes(segment, rounded, held.room_end - address);
        if (bytes == rounded) bytes += held.clues.least(address + rounded, kLargestRest);
      }
      add_free(address);
      segment.blocks.push_back({address, std::min(bytes, room), held.requested, held.state});
      at = address + std::min(bytes, room);
    }
    add_free(end_of(segment));
  }

  const TorchSettings& settings_;
  std::uint32_t device_;
  Warnings& warnings_;
  std::size_t position_ = 0;
  bool after_segment_alloc_ = false;
  std::set<std::uint64_t> watched_;
  std::uint64_t clue_budget_ =
      100'000'000;  // a hostile trace would ask for the square of its length
  Blocks blocks_;
  Blocks unplaced_;
  Segments segments_;
};

}  // namespace

TorchLayout initial_layout(const TorchSnapshot& snapshot, std::uint32_t device,
                           Warnings& warnings) {
  static const std::vector<TorchEvent> kNone;
  const auto& events = device < snapshot.traces.size() ? snapshot.traces[device] : kNone;
  Rewind rewind{snapshot, device, warnings};
  rewind.undo(events);
  auto doubtful = rewind.doubtful();
  if (doubtful.empty()) return rewind.layout();

  Warnings known_already;
  Rewind again{snapshot, device, known_already};
  again.watch(std::move(doubtful));
  again.undo(events);
  return again.layout();
}

}  // namespace millrace::trace
