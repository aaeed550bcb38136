#include <fmt/format.h>

#include <set>

#include "millrace/observe/trace/torch_layout.hpp"
#include "observe/trace/torch/heap.hpp"

// To undo an allocation is to forget a block in use; to undo a free is to put one back. The events
// give addresses, and the size of a block that the trace allocates: the next block in memory shows
// how PyTorch cut it. Blocks from before the trace keep the nearest end that a later address shows.
// A second pass watches those that remain in doubt, for decisions of PyTorch that depend on the
// rest of the block.

namespace millrace::trace {

namespace {

constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;
constexpr std::uint64_t kLargeHandle = std::uint64_t{20} << 20;

class Rewind {
 public:
  Rewind(const TorchSnapshot& snapshot, std::uint32_t device, Warnings& warnings)
      : settings_{snapshot.settings}, device_{device}, warnings_{warnings}, heap_{settings_} {
    for (const TorchSegment& segment : snapshot.segments) {
      if (segment.device == device) take(segment);
    }
  }

  /** Looks for clues about the rests of these blocks when undoing. */
  void watch(std::set<std::uint64_t> addresses) { watched_ = std::move(addresses); }

  void undo(const std::vector<TorchEvent>& events) {
    for (position_ = events.size(); position_-- > 0;) {
      after_segment_alloc_ =
          position_ > 0 && events[position_ - 1].action == TorchAction::segment_alloc;
      undo(events[position_]);
    }
  }

  /** The blocks that may or may not have an unsplit rest. */
  [[nodiscard]] std::set<std::uint64_t> doubtful() {
    std::set<std::uint64_t> addresses;
    for (const auto& [address, held] : heap_.blocks()) {
      if (held.bytes != 0) continue;
      const TorchSegment& segment = heap_.segment_of(address)->second;
      const std::uint64_t room = held.room_end - address;
      const std::uint64_t rounded = torch_rounded(held.requested, settings_);
      if (heap_.may_keep_rest(segment) && heap_.block_bytes(segment, rounded, room) < room) {
        addresses.insert(address);
      }
    }
    return addresses;
  }

  [[nodiscard]] TorchLayout layout() {
    TorchLayout layout;
    for (const auto& [address, segment] : heap_.segments()) {
      layout.segments.push_back(heap_.filled(segment));
    }
    for (const auto& [address, held] : unplaced_) {
      layout.unplaced.push_back(
          {address, torch_rounded(held.requested, settings_), held.requested, held.state});
    }
    return layout;
  }

 private:
  using Held = TorchHeap::Held;

  void undo(const TorchEvent& event) {
    switch (event.action) {
      case TorchAction::alloc:
        return undo_alloc(event);
      case TorchAction::free_requested:
        return undo_free_requested(event);
      case TorchAction::free_completed:
        return put_back(event, BlockState::pending_free);
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
      case TorchAction::annotate:
      case TorchAction::other:
        return;
    }
  }

  void note(std::string_view finding, std::uint64_t address) {
    warnings_.add(finding,
                  fmt::format("device_traces[{}][{}], address {:#x}", device_, position_, address));
  }

  void take(const TorchSegment& segment) {
    if (heap_.overlaps_segment(segment.address, segment.bytes)) {
      warnings_.add("a segment of the snapshot overlaps another and is left out",
                    fmt::format("segment at {:#x}", segment.address));
      return;
    }
    heap_.segments().emplace(segment.address, segment).first->second.blocks.clear();
    for (const TorchBlock& block : segment.blocks) {
      const std::uint64_t end = block.address + block.bytes;
      if (block.state == BlockState::inactive) continue;
      if (block.address < segment.address || end > end_of(segment)) {
        warnings_.add("a block of the snapshot lies outside its segment and is left out",
                      fmt::format("block at {:#x}", block.address));
        continue;
      }
      heap_.blocks().insert_or_assign(block.address, Held{.requested = block.requested,
                                                          .state = block.state,
                                                          .bytes = block.bytes,
                                                          .room_end = end,
                                                          .stack = block.stack,
                                                          .label = block.label});
    }
  }

  void undo_alloc(const TorchEvent& event) {
    const auto block = heap_.blocks().find(event.address);
    if (block == heap_.blocks().end()) return undo_alloc_elsewhere(event);
    const TorchSegment& segment = heap_.segment_of(event.address)->second;
    const std::uint64_t room = heap_.room_end(segment, std::next(block)) - event.address;
    const std::uint64_t rounded = torch_rounded(event.bytes, settings_);
    const Held& held = block->second;
    if (held.requested != event.bytes) {
      note("a block is allocated with one size, and freed or held with another", event.address);
    } else if (held.bytes != 0 && held.bytes != heap_.block_bytes(segment, rounded, room)) {
      note("a block has another size than the rules give it", event.address);
    }
    forget(block);
    if (watched_here_.empty() || !heap_.may_keep_rest(segment) ||
        rounded >= settings_.max_split_size)
      return;
    const bool new_segment = after_segment_alloc_ && event.address == segment.address;
    find_clues(segment, {.gap_end = 0,
                         .asked = rounded,
                         .chosen_bytes = new_segment ? UINT64_MAX : room,
                         .chosen_address = event.address});
  }

  void undo_alloc_elsewhere(const TorchEvent& event) {
    if (unplaced_.erase(event.address) != 0) return;
    note(heap_.segment_of(event.address) == heap_.segments().end()
             ? "a block that the trace uses is in no segment"
             : "a block is allocated and never freed, but the snapshot does not hold it",
         event.address);
  }

  void find_clues(const TorchSegment& chosen, RestClues::Choice choice) {
    for (const std::uint64_t address : watched_here_) {
      if (looks_left_ == 0 || clues_left_ == 0) return;
      --looks_left_;
      const auto block = heap_.blocks().find(address);
      const TorchSegment& segment = heap_.segment_of(address)->second;
      const bool same_pool =
          segment.large && segment.stream == chosen.stream && segment.pool == chosen.pool;
      if (!same_pool) continue;
      choice.gap_end = heap_.room_end(segment, std::next(block));
      if (block->second.clues.add(heap_.least_end(*block), choice)) --clues_left_;
    }
  }

  void undo_free_requested(const TorchEvent& event) {
    for (auto* blocks : {&heap_.blocks(), &unplaced_}) {
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
    put_back(event, BlockState::allocated);
  }

  void put_back(const TorchEvent& event, BlockState state) {
    const Held held{.requested = event.bytes, .state = state};
    const auto segment = heap_.segment_of(event.address);
    if (segment == heap_.segments().end()) {
      note("a block that the trace uses is in no segment", event.address);
      unplaced_.insert_or_assign(event.address, held);
      return;
    }
    clear(event.address, event.address + torch_rounded(event.bytes, settings_),
          "two blocks in use overlap; the one that was freed or held later is left out");
    heap_.insert(segment, event.address, held);
    if (watched_.contains(event.address)) watched_here_.insert(event.address);
  }

  TorchHeap::Blocks::iterator forget(TorchHeap::Blocks::iterator block) {
    watched_here_.erase(block->first);
    return heap_.blocks().erase(block);
  }

  // Forgets the blocks in a range that an earlier event shows to have held other blocks.
  void clear(std::uint64_t from, std::uint64_t to, std::string_view finding) {
    auto block = heap_.first_touching(from);
    while (block != heap_.blocks().end() && block->first < to) {
      note(finding, block->first);
      block = forget(block);
    }
  }

  void undo_segment_alloc(const TorchEvent& event) {
    const auto segment = heap_.segments().find(event.address);
    if (segment == heap_.segments().end() || segment->second.bytes != event.bytes) {
      note("a segment is allocated and never freed, but the snapshot does not hold it",
           event.address);
      return;
    }
    clear(event.address, end_of(segment->second), "a block is in use before its segment exists");
    heap_.segments().erase(segment);
  }

  void undo_segment_free(const TorchEvent& event, bool expandable) {
    if (event.bytes == 0 || heap_.overlaps_segment(event.address, event.bytes)) {
      note("a segment is freed that is there later", event.address);
      return;
    }
    const bool large = expandable ? event.bytes % kLargeHandle == 0 : event.bytes > kSmallSegment;
    heap_.add_segment({.device = device_,
                       .address = event.address,
                       .bytes = event.bytes,
                       .stream = event.stream,
                       .large = large,
                       .expandable = expandable,
                       .pool = event.pool.value_or(TorchPool{}),
                       .blocks = {}});
  }

  void undo_segment_map(const TorchEvent& event) {
    const auto segment = heap_.segment_of(event.address);
    const std::uint64_t end = event.address + event.bytes;
    if (segment == heap_.segments().end() || end > end_of(segment->second) || event.bytes == 0) {
      note("memory is mapped and never unmapped, but the snapshot does not hold it", event.address);
      return;
    }
    clear(event.address, end, "a block is in use before its segment exists");
    heap_.cut(segment, event.address, event.bytes);
  }

  const TorchSettings& settings_;
  std::uint32_t device_;
  Warnings& warnings_;
  TorchHeap heap_;
  TorchHeap::Blocks unplaced_;
  std::size_t position_ = 0;
  bool after_segment_alloc_ = false;
  std::set<std::uint64_t> watched_;
  std::set<std::uint64_t> watched_here_;  // those that were put back
  // A hostile trace would ask for the square of its length, in time and in memory.
  std::uint64_t looks_left_ = 100'000'000;
  std::uint64_t clues_left_ = 1'000'000;
};

}  // namespace

TorchLayout initial_layout(const TorchSnapshot& snapshot, std::uint32_t device,
                           Warnings& warnings) {
  static const std::vector<TorchEvent> none;
  const auto& events = device < snapshot.traces.size() ? snapshot.traces[device] : none;
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
