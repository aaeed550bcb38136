#include "explain/page_blocks.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "explain/page_order.hpp"

namespace millrace::cli {
namespace {

using trace::EventKind;
using trace::LogEvent;
using trace::LoggedBlock;

/** The last block at each address of one device. */
class LastUsers {
 public:
  /** Assigns the range to `user`. @return the last block that used a part of it, or kUnknown */
  std::uint32_t replace(std::uint64_t begin, std::uint64_t end, std::uint32_t user) {
    std::uint32_t latest = kUnknown;
    auto range = ranges_.lower_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    while (range != ranges_.end() && range->first < end) {
      const auto [from, old] = *range;
      if (latest == kUnknown || old.turn > ranges_turn_) {
        latest = old.user;
        ranges_turn_ = old.turn;
      }
      range = ranges_.erase(range);
      if (from < begin) ranges_.emplace(from, Range{begin, old.user, old.turn});
      if (old.end > end) range = ranges_.emplace(end, Range{old.end, old.user, old.turn}).first;
    }
    ranges_turn_ = 0;
    if (user != kUnknown && end > begin) ranges_[begin] = {end, user, ++turn_};
    return latest;
  }

 private:
  struct Range {
    std::uint64_t end;
    std::uint32_t user;
    std::uint64_t turn;  // order of allocation of its user
  };
  std::map<std::uint64_t, Range> ranges_;
  std::uint64_t turn_ = 0, ranges_turn_ = 0;
};

/** Makes the blocks in one pass through a log. */
class BlockMaker {
 public:
  BlockMaker(const trace::AllocationLog& log, const Explanation& explanation)
      : log_(log),
        explanation_(explanation),
        first_(first_event_of(log)),
        blocks_(log.blocks.size()),
        complete_(log.blocks.size()) {
    if (knows_order(log.format)) order_.emplace(log);
  }

  std::vector<PageBlock> run(const PageIndices& indices) {
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
      describe(i, indices);
      if (log_.blocks[i].live_at_start && log_.has_addresses()) (void)use(i);
    }
    for (std::uint32_t i = 0; i < log_.events.size(); ++i) {
      if (order_) order_->advance(i);
      apply(log_.events[i], first_ + i);
    }
    return std::move(blocks_);
  }

 private:
  void describe(std::uint32_t index, const PageIndices& indices) {
    const LoggedBlock& block = log_.blocks[index];
    PageBlock& out = blocks_[index];
    if (log_.has_addresses()) out.address = block.address;
    out.bytes = std::max(explanation_.held[index], block.bytes);
    out.requested = block.bytes;
    out.device = block.device;
    out.stream = block.stream;
    out.tag = indices.tags[block.label];
    out.stack = indices.stacks[block.stack];
    out.site = indices.sites[index];
    if (block.freed_before_start) out.freed = 0;
    if (!log_.snapshot && !knows_order(log_.format)) return;
    const auto& completed = explanation_.completed[index];
    out.ready = first_ + static_cast<PageEvent>(completed.value_or(log_.events.size()));
  }

  std::uint32_t use(std::uint32_t index) {
    const PageBlock& block = blocks_[index];
    return users_[block.device].replace(block.address, block.address + block.bytes, index);
  }

  void apply(const LogEvent& event, PageEvent now) {
    switch (event.kind) {
      case EventKind::allocate:
        blocks_[event.block].allocated = now;
        if (log_.has_addresses()) set_previous(event.block, use(event.block));
        return;
      case EventKind::free_requested:
        blocks_[event.block].freed = now;
        if (order_) order_->freed(event);
        return;
      case EventKind::free_completed:
        complete_[event.block] = true;
        if (order_) order_->completed(event.block);
        return;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        if (!trace::has_place(log_, event)) return;
        (void)users_[event.device].replace(event.address, event.address + event.bytes, kUnknown);
        fresh_[event.device][event.address] = event.address + event.bytes;
        return;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        if (!trace::has_place(log_, event)) return;
        (void)users_[event.device].replace(event.address, event.address + event.bytes, kUnknown);
        return;
      case EventKind::out_of_memory:
        return;
    }
  }

  void set_previous(std::uint32_t index, std::uint32_t previous) {
    PageBlock& block = blocks_[index];
    block.previous = previous;
    if (previous == kUnknown) {
      if (is_fresh(block)) block.reuse = PageReuse::fresh;
      return;
    }
    if (order_) {
      const PageOrder::Reuse reuse = order_->reuse(previous, block.stream);
      block.reuse = reuse.why;
      block.wait = reuse.wait;
      return;
    }
    // In a snapshot each free has a completion. A completion directly after its free means that the
    // block did not wait for another stream.
    const PageBlock& before = blocks_[previous];
    const bool at_once = log_.snapshot && before.freed != kUnknown && before.ready != kUnknown &&
                         before.ready <= before.freed + 1;
    if (complete_[previous] && !at_once) {
      block.reuse = PageReuse::completed;
    } else if (before.stream == block.stream) {
      block.reuse = PageReuse::same_stream;
    }
  }

  /** Whether the driver provided the memory during the log. */
  [[nodiscard]] bool is_fresh(const PageBlock& block) const {
    const auto device = fresh_.find(block.device);
    if (device == fresh_.end()) return false;
    const auto after = device->second.upper_bound(block.address);
    return after != device->second.begin() && std::prev(after)->second > block.address;
  }

  const trace::AllocationLog& log_;
  const Explanation& explanation_;
  const PageEvent first_;
  std::vector<PageBlock> blocks_;
  std::optional<PageOrder> order_;            // only for traces in Millrace's format
  std::vector<bool> complete_;                // by block: all its work was known to be complete
  std::map<std::uint32_t, LastUsers> users_;  // by device
  std::map<std::uint32_t, std::map<std::uint64_t, std::uint64_t>> fresh_;  // segments, by device
};

}  // namespace

PageEvent first_event_of(const trace::AllocationLog& log) {
  const bool has_segments = std::ranges::any_of(
      log.initial, [](const trace::TorchLayout& layout) { return !layout.segments.empty(); });
  return has_segments || std::ranges::any_of(log.blocks, &LoggedBlock::live_at_start) ? 1 : 0;
}

std::vector<PageBlock> page_blocks_of(const trace::AllocationLog& log,
                                      const Explanation& explanation, const PageIndices& indices) {
  return BlockMaker{log, explanation}.run(indices);
}

}  // namespace millrace::cli
